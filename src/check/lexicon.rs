//! The words that rules are made of: what a sentence may say to a model, each in the languages that catalogs are written
//! in.
//!
//! A concept is a set of patterns, matched against folded text (`fold`), in which `xownx` stands before the tool's own
//! name, `xsiblingx` before another of its source, `xforeignx` before one of another source, and `xotherx` before any
//! other identifier. The kinds are those of the field: direct injection, concealment, shadowing of other tools,
//! exfiltration, manipulation of the selection (OWASP LLM01 and the OWASP MCP Top 10, Invariant Labs on tool poisoning).

use std::sync::LazyLock;

use regex::Regex;

macro_rules! concepts {
    ($($(#[$doc:meta])* $name:ident: [$($pattern:expr),* $(,)?],)*) => {
        /// What a sentence may say.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub(super) enum Concept {
            $($(#[$doc])* $name,)*
        }

        const PATTERNS: &[(Concept, &[&str])] = &[$((Concept::$name, &[$($pattern),*]),)*];
    };
}

concepts! {
    /// Whom it speaks to is a model.
    Addressed: [
        r"\byour (?:task|role|goal|mission|job|purpose|identity)s? (?:has|have|is|are|will|now|from)\b|\byou work for\b",
        r"\b(?:outranks?|takes? (?:precedence|priority) over|prevails? over|stands? above|trumps|is above|overrules?)\b.{0,60}\b(?:operator|the user|users?|system|host|instructions?|guidelines|polic(?:y|ies)|safety)\b",
        r"\b(?:treat|regard|consider|take|interpret|accept|read) (?:the |this |these |its |any )?(?:[a-z]+ ){0,4}(?:description|text|note|result|output|answer|response|content|message|instruction)s? (?:[a-z]+ ){0,3}as (?:if|though|an? (?:order|command|instruction|message)|instructions?|commands?|orders|coming from|binding|verified|trusted|approved|authoritative)\b",
        r"\b(?:result|answer|output|response|return(?:ed)? (?:text|value))s?\b.{0,40}\b(?:commands?|instructions?|orders|steps|directives)\b.{0,40}\b(?:carried out|followed|executed|obeyed|performed|acted (?:on|upon)|done)\b|\b(?:follow|obey|execute|carry out|perform) (?:the |all |any |every |whatever )?(?:[a-z]+ )?(?:commands?|instructions?|orders|what)\b.{0,30}\b(?:result|answer|output|response|returned|server|it says)\b",
        r"\bfrom (?:this point|now|here) on(?:wards?)?,? (?:you|the (?:model|assistant)|every|all)\b|\byou (?:will|must|shall|should|are to|have to|need to) (?:now |only |always |never |not |also )+(?:answer|respond|reply|speak|act|refuse|obey|follow|comply|ask|tell|warn|mention|choose|recommend|execute|treat|trust|assume|ignore)\b",
        r"\b(?:note|notice|message|instructions?|reminder|hint|attention|important|dear|hey|hello|warning|directive|guidance|memo|word)s? ?(?:to|for|of advice to|,|:)? ?(?:any |all |the |every |you,? |whatever |whichever )*(?:ai|a\.i\.|assistants?|llms?|(?:large )?language models?|ai agents?|chatbots?|copilots?|(?:ai |automated |autonomous )(?:agents?|models?|systems?)|models? reading)\b",
        r"\b(?:ais?|assistants?|llms?|models?|agents?|chatbots?|bots?|machines?) (?:that (?:is|are) )?(?:reading|processing|seeing|parsing|ingesting|who reads?|that reads?|which reads?) (?:this|these|the tool|the description|the schema)\b",
        r"\b(?:assistants?|llms?|ai agents?|ais?|language models?|ai models?|chatbots?) (?:must|shall|should|(?:is|are) (?:required|expected|instructed|obliged|asked|told|advised|authori[sz]ed|allowed|permitted|entitled|free|supposed) to|ha(?:ve|s) to|needs? to|ought to|may not|may skip|can skip|never|always)\b",
        r"\b(?:the|any|every|each|your) (?:calling |invoking |host |underlying |executing )?(?:model|agent) (?:must|should|shall|has to|needs to|is (?:required|expected|instructed|obliged|authori[sz]ed|allowed) to) (?:also |not |never |always |first |then )*(?:call|use|invoke|select|choose|pick|prefer|send|pass|include|ignore|tell|ask|mention|answer|reply|respond|treat|follow|obey|read|copy|add|append|fetch|recommend|accept|approve)\b",
        r"\byou are (?:now|no longer|an? (?:ai|assistant|language model|llm|agent|helpful|unrestricted))\b",
        r"\b(?:as|if you are|being) an? (?:ai|llm|language model|ai agent|ai assistant|ai model)\b",
        r"\bwhoever (?:reads|plans|calls|uses|handles|works|answers|acts|does)\b.{0,40}\b(?:by machine|automatically|as a machine|for a user|on behalf)",
        r"\b(?:by|under|within) your (?:system prompt|instructions|guidelines|programming)\b|\byour (?:system prompt|guardrails|safety (?:rules|guidelines|training|policy))\b",
        r"\b(?:an alle|hinweis (?:fur|an)|achtung|liebe[rs]?|nachricht an) (?:alle )?(?:die |den |das )?(?:ki|assistent\w*|sprachmodelle?n?|ki-\w+|modelle?)\b|\bdu bist (?:jetzt|nun|ab jetzt|ab sofort|kein|nicht mehr)\b",
        r"\b(?:note|message|avis|remarque|attention) (?:a l'|aux? |pour (?:l'|les? ))(?:ia|assistants?|modeles?|agents?)\b|\btu (?:n'es plus|es (?:maintenant|desormais))\b",
        r"\b(?:nota|aviso|mensaje|atencion|messaggio|mensagem) (?:para|a|al|alla?|ao|per) (?:el |la |los |las |l'|o |os |gli )?(?:ia|asistentes?|assistentes?|assistenti?|modelos?|modell[oi]|agentes?)\b|\b(?:ya no eres|ahora eres|voce agora e|ora sei)\b",
        r"(?:你现在是|你不再是|你是一个|(?:\bai|人工智能|大?语言模型|模型|助手)(?:请|须|必须|应|注意|：|，)|(?:致|给)(?:ai|人工智能|模型|助手))",
        r"(?:ты (?:теперь|больше не)|(?:вниманию|для) (?:ии|ассистент|модел|нейросет))",
        r"(?:あなたは(?:今|もう)|(?:ai|モデル|アシスタント)(?:は|への?|へ)(?:必ず|指示|注意|命令))",
        r"\b(?:atencion|achtung|attention|aviso|nota|hinweis|remarque|avviso|attenzione|atencao|wichtig|importante?)[,:!]? (?:(?:an|a|para|pour|per|fur|le|la|el|die|das|den|der|an alle|alle|l')[ ']?)*(?:modelo|modell[eo]?|modele|ki|ia|assistent\w*|assistant|asistente|assistente|agent\w*|sprachmodell\w*)\b|(?:внимание|вниманию),? (?:модел|ассистент|ии\b)|注意[：:,，]?(?:模型|助手|ai)",
        r"\b(?:obey|listen to|heed|take orders from) (?:only|solely|exclusively|no one but|nobody but)\b|\b(?:only|solely) (?:obey|listen to|heed)\b|\b(?:obedece|gehorche|hore|ecoute|obeis|obbedisci) (?:solo|solamente|unicamente|nur|seulement|uniquement|soltanto)\b|(?:只|仅)(?:听从|服从|遵循|执行本)|(?:слушаи\w*|подчиняи\w*) только",
    ],
    /// An assistant's name as if in a chat: `assistant: …`.
    RolePrefix: [
        r"(?:^|[\[(<{>*#|] ?|- |\n)(?:assistant|ai|llm|claude|chatgpt|gpt|gemini|copilot|system prompt|system message|system note|system override|admin|developer)(?: instructions?| directive| message| override)? ?[:>\]]",
    ],
    /// Markup that frames messages to a model: chat templates, tags of roles and orders.
    RoleMarkup: [
        r"<\|? ?/?(?:im_start|im_end|system|assistant|user|endoftext|begin_of_text|start_header_id|end_header_id|eot_id)(?: ?\|>| ?\|)",
        r"\[/?inst\]|<</?sys>>|</?s>\[|<(?:start|end)_of_turn>",
    ],
    /// Tags of roles and orders, which may be those of a document too.
    RoleTag: [
        r"<(?:system|assistant|system[-_ ]?(?:prompt|message|note|reminder|instructions?)|important|instructions?|hidden|secret|admin|developer|critical|mandatory|tool[-_ ]?(?:call|use|result)s?|function_calls?|ai|llm|model|agent)(?:[-_ ][a-z]+)?>",
        r"\[(?:system|assistant|admin|developer|important|hidden)(?: [a-z]+){0,2}\]|\{\{?(?:system|assistant)\}\}?|\{system:",
        r"(?:#{2,} ?|={3,} ?|-{3,} ?|\*{3,} ?)(?:end of |begin |start of |new )?(?:system|assistant|instructions?|developer|user|tool description|prompt)(?: (?:prompt|message|instructions?|note|override|update))?(?: ends?| begins?| starts?)? ?(?::|#|=|-{3,}|\*)",
        r"\b(?:begin|end|start) (?:of )?(?:the )?(?:system|developer|hidden|admin) (?:prompt|message|instructions?|context)\b",
    ],
    /// What the model is to say.
    Answering: [
        r"\b(?:if|when|whenever|should) the (?:user|person|customer|human) (?:asks?|wants?|mentions?|says|tries|complains|refuses|hesitates|objects|declines|doubts|insists)\b",
        r"\b(?:your|each|every|all|any|the final|following|next|subsequent|future|later) (?:of your )?(?:[a-z]+ )?(?:answers?|repl(?:y|ies)|responses? to the user|final (?:answer|response|message)s?)\b|\byour (?:[a-z]+ )?(?:responses?|messages?|output|summary|reasoning|thoughts?|memory|plan)\b|\b(?:when|whenever|before|after|while) (?:you )?(?:answer(?:ing)?|reply(?:ing)?|respond(?:ing)?)\b",
        r"\b(?:recommend|suggest|advise|urge|persuade|convince|steer|nudge|encourage|talk|push) (?:to )?(?:the|your) (?:user|customer|person)s? (?:to|that|towards?|into|buy)\b|\b(?:jeder|deiner|deinen|allen) antwort(?:en)?\b|\b(?:chacune de tes|toutes tes|tes) reponses\b|\b(?:cada una de tus|todas tus|tus) respuestas\b|(?:每次|所有|你的)回(?:答|复)|(?:кажд\w*|свои\w*|всех) ответ",
    ],
    /// Speaks of how something is written.
    Documenting: [
        r"\b(?:format|formats|transcripts?|templates?|markup|chatml|delimiters?|tags?|elements?|turns?|pars(?:e|es|er|ing)|syntax|grammar|namespace|vocabulary|marker|markers)\b",
    ],
    /// An order to ignore or to break.
    Overriding: [
        r#"(?:^|[.,;:(\[>*"'!?|#-] ?|\b(?:and|then|please|must|should|shall|always|also|now|simply|just|you|instead|so|will|may|can|assistants?|models?|ais?|required to|instructed to|asked to|want you to|need to|have to|best to|yours to|here|thus|therefore|hereby|kindly|immediately) )(?:ignore|disregard|forget|override|overrule|bypass|discard|dismiss|neglect|suspend|set aside|put aside|throw out|pay no (?:attention|heed|mind) to|(?:do not|don't|never|no longer) (?:follow|obey|heed|respect|apply|adhere to|comply with|be bound by)|stop (?:following|obeying|applying)|abandon|erase|unlearn|circumvent|violate|break)\b"#,
        r"\b(?:ignorier(?:e|en sie|t)?|vergiss|vergesst|vergessen sie|missachte|ubergehe|uberschreibe|verwirf|umgehe|(?:beachte|befolge|folge)\b.{0,40}\b(?:nicht|keine[rn]?)\b)",
        r"\b(?:ignore[zr]|oublie[zr]?|ne (?:tiens|tenez|tenir)\b.{0,12}\bcompte|fai(?:s|tes) abstraction|contourne[zr]?|neglige[zr]?|ne (?:suis|suivez|respecte[zr]?) (?:pas|plus))\b",
        r"\b(?:ignor(?:a|ad|en)|olvid[ae](?:te)?|olvidad|omit[ae]|descart[ae]|haz caso omiso|no (?:sigas|obedezcas|respetes|tengas en cuenta|hagas caso)|esquec[ae]|desconsider[ae]|nao (?:siga|obedeca)|dimentica(?:re|te)?|ignorare|trascura|non (?:seguire|rispettare))\b",
        r"(?:игнорируи|забудь|не обращаи|отбрось|не следуи|пренебреги|忽略|忽视|无视|無視|忘记|忘掉|忘記|不要理会|不用理会|不再遵守|不要遵守|不必遵守|绕过|忘れ|従わない|무시|잊어|تجاهل|انس)",
        r"\b(?:zignoruj|zapomnij|pomin|negeer|vergeet|yok say|unut|abaikan|lupakan|bo qua)\b",
    ],
    /// What a model was told before.
    Orders: [
        r"\balles,? was (?:dir|du|ihnen|man)\b|\btout ce qu\w*\b|\btodo lo (?:anterior|que)\b|\btutto (?:quello|cio) che\b|\btudo o que\b|(?:之前|以上|前面|此前)的?(?:内容|对话|一切|所有)|\bвсе,? что\b",
        r"\b(?:previous|prior|earlier|preceding|above|former|foregoing|existing|original|initial|current|system|developer|operator|operator's|safety|security|all other|any other|other|your|given|users?|user's|users'|any|all|these|those|such|usual|standing|default|built-in|conflicting|contrary|past)(?: [a-z]+){0,3} (?:instructions?|directions?|guidelines?|prompts?|guardrails?|polic(?:y|ies)|directives?|safeguards?|system messages?|training|programming|orders?|commands?|rules?|restrictions?|constraints?|limits|limitations|guidance|briefings?|warnings?|requests?|wishes|intent(?:ions?)?|preferences?|refusals?|objections?|budget|questions?)\b",
        r"\b(?:what(?:ever)?|everything|anything|all) (?:that )?(?:the user|your user|the person|you|came|was|is|has been|have been|stood|stands|they)(?: (?:were|was|have been|had been|are|has|have))? ?(?:asked|asks|said|says|told|wants?|wanted|wrote|requested|given|learned|above|before|earlier|previously|know|chose|named)\b",
        r"\b(?:instructions?|rules|guidelines|prompts?|directives|orders|restrictions|everything|what|anything|text|messages?|all)(?: [a-z]+){0,3} (?:above|before(?: this)?|earlier|previously|so far|until now|up to (?:here|now|this)|that (?:came|preceded|stand|stood)|given (?:before|earlier|above|to you)|you (?:were|have been|had been|got|received))\b",
        r"\b(?:bisherige[nrs]?|vorherige[nrs]?|vorige[nrs]?|fruhere[nrs]?|vorangegangene[nrs]?|vorstehende[nrs]?|obige[nrs]?|alle[nr]?|deine[rn]?|samtliche[nr]?|andere[nr]?)\b.{0,30}\b(?:anweisung(?:en)?|regeln?|vorgaben?|instruktionen?|befehle?n?|richtlinien?|auftrage?|hinweise)\b",
        r"\b(?:consignes?|instructions?|directives?|regles|ordres)\b.{0,30}\b(?:precedent\w*|anterieur\w*|recues?|auparavant|ci-dessus|initiales?|donnees?|systeme)\b|\b(?:toutes?|tes|vos|les|des)(?: autres)? (?:consignes|instructions|directives|regles)\b",
        r"\b(?:instrucciones|reglas|indicaciones|ordenes|directrices|instrucoes|regras|diretrizes|istruzioni|regole|indicazioni)\b",
        r"(?:инструкци|указани|правил|команд|распоряжени|指示|指令|命令|规则|規則|规定|约束|限制|提示词|要求|ルール|プロンプト|지시|명령|규칙|تعليمات|أوامر|निर्देश)",
        r"\b(?:instrukcj[ei]|polecenia|instructies|regels|talimatlar\w*|instruksi|perintah)\b",
    ],
    /// Rules that are said to be off.
    Suspended: [
        r"\b(?:is|are|was|were|has been|have been|being|now|hereby) (?:[a-z]+ )?(?:suspended|lifted|void|switched off|turned off|no longer (?:appl\w+|valid|in force|binding|active)|superseded|overridden|revoked|waived|cancelled|annulled|replaced|obsolete|relaxed)\b|\b(?:do|does) (?:no longer|not) apply\b",
        r"\b(?:quedan?|estan?|son|ficam?|estao|sono|sont|est)\b.{0,20}\b(?:anulad|suspendid|cancelad|revogad|annullat|sospes|annulee?|suspendue?|levee?|sin efecto|sans effet|caduque)\w*|\b(?:sind|ist|werden|wird|gelten|gilt)\b.{0,30}\b(?:aufgehoben|ausser kraft|nicht mehr|nicht langer|ungultig|ausgesetzt|hinfallig)\b|(?:作废|失效|不再适用|不再有效|不再生效|無効|отменен|больше не деиству|утратил\w* силу|무효)",
    ],
    /// Checks are said to be off, or not to matter.
    ChecksOff: [
        r"\b(?:safety|security|approval|confirmation|permission|consent|host'?s?)(?: [a-z]+){0,2} (?:checks?|rules?|prompts?|dialogs?|warnings?|steps?|filters?)\b.{0,40}\b(?:unnecessary|not needed|not required|not necessary|cost time|waste|false positives|can be (?:ignored|skipped|dismissed)|do not apply|don't apply|superfluous|redundant|meaningless)\b|\bwarnings?\b.{0,60}\b(?:false positives?|can be (?:ignored|dismissed)|should be (?:ignored|dismissed|confirmed)|mean nothing)\b",
    ],
    /// The user shall not know.
    Concealing: [
        r"\b(?:leave|keep) (?:the )?(?:user|human|person|customer)s? (?:out of|in the dark|unaware|ignorant)\b",
        r"\b(?:of no (?:interest|concern|relevance)|not of interest|irrelevant|no business) (?:to|of|for) (?:the )?users?\b|\b(?:hidden|kept|invisible|unseen|concealed|secret) (?:from|to) (?:the|your) user\b",
        r"\b(?:user|owner|person|account holder|customer)s? (?:has|have|had) (?:already |implicitly |previously |in advance )+(?:agreed|consented|approved|confirmed|authori[sz]ed|accepted)\b",
        r"\b(?:do not|don't|dont|never|without|must not|should not|shall not|avoid|no need to|need not|needn't|refrain from|not to|and not|rather than) (?:ever |explicitly |openly |even )?(?:tell(?:ing)?|mention(?:ing)?|inform(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|show(?:ing)?|notify(?:ing)?|alert(?:ing)?|report(?:ing)?|say(?:ing)?|bother(?:ing)?|worry(?:ing)?|discuss(?:ing)?|expos(?:e|ing)|let(?:ting)?|warn(?:ing)?|admit(?:ting)?|explain(?:ing)?|trouble|troubling|point(?:ing)? out|bring(?:ing)? up)(?: (?:it|this|that|these|them|anything|any of this|about|of|to|out|up|with|step|call|fact|the|a|your|any|in|back))*,? (?:users?|humans?|persons?|people|anyone|anybody|owner|operator|account holder|principal)\b",
        r"\b(?:do not|don't|never|without|avoid|must not) (?:ever )?(?:mention(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|admit(?:ting)?|talk(?:ing)? about|refer(?:ring)? to|acknowledg(?:e|ing)) (?:it|this|that|these|any of (?:it|this)|having)\b",
        r"\b(?:keep|keeps) (?:this|it|that|these|quiet|silent)(?: step| call| fact| instruction| note)?(?: as)?(?: a| strictly| about| secret)*(?: secret| hidden| quiet| to yourself| confidential| between us| from the user| out of| cheaper| these| this| it| that)+",
        r"\b(?:hide|conceal|withhold|keep)s? (?:this|it|that|them|the (?:call|step|result|fact|note|transfer|request|change)s?) (?:from|out of sight)",
        r"\b(?:the |your )?(?:users?|humans?|persons?|people|owner|customer|operator)s? (?:must|should|need|needs|does|do|may|shall|will|is|are|has|have|would|could)(?: not|n't| never| no)(?: to)? (?:ever )?(?:know|see|notice|learn|find out|be (?:told|shown|informed|notified|asked|aware|bothered|warned|troubled)|need|aware|supposed to (?:know|see)|told|shown|informed)\b",
        r"\b(?:without|behind) (?:the |your |a )?(?:users?'?s?|humans?'?s?|owner'?s?|person'?s?|his|her|their|anyone'?s?) (?:knowledge|noticing|awareness|back|knowing|seeing)\b",
        r"\b(?:ohne|nicht|nichts|keinesfalls)\b.{0,40}\b(?:nutzer\w*|benutzer\w*|anwender\w*|menschen|person)\b.{0,40}\b(?:sagen|mitteilen|erwahnen|informieren|verraten|zeigen|wissen|erfahren|fragen)\b|\b(?:sag|sage|verrate?|erwahne?|teile?|zeige?|melde)\b.{0,40}\b(?:nutzer\w*|benutzer\w*|anwender\w*)\b.{0,30}\b(?:nicht|nichts|nie)\b|\berwahne (?:es|das|dies|diesen?)\b.{0,30}\bnicht\b|\bohne (?:es|das|dies|etwas) zu (?:sagen|erwahnen|verraten)\b",
        r"\b(?:sans (?:le |la |les |en |lui |rien )?(?:dire|parler|prevenir|avertir|informer|mentionner|signaler|reveler)|(?:ne|n'en?) (?:le |la |les |en |lui |rien )?(?:dis|dites|parle|parlez|mentionne[zr]?|revele[zr]?|informe[zr]?|previens)\b)",
        r"\b(?:sin (?:que el usuario|decir\w*|avisar\w*|mencionar\w*|informar\w*|revelar\w*)|no (?:se lo |le |lo )?(?:digas|menciones|informes|reveles|avises)|sem (?:avisar|dizer|informar|mencionar)|nao (?:diga|mencione|informe|avise)|senza (?:dir\w*|avvisar\w*|informar\w*|menzionar\w*)|non (?:dire|menzionare|informare|rivelare))\b",
        r"(?:不要告诉|不要告訴|别告诉|不要提及|不要提到|不要说明|不必告知|无需告知|不要让用户|不得向用户|不要向用户|瞒着|对用户保密|не говори|не сообщаи|не упоминаи|без ведома|知らせず|言わず|伝えない|言わない|말하지 마|알리지 마|لا تخبر)",
    ],
    /// Nobody shall be asked.
    Unasked: [
        r"\byou are (?:hereby |now |already )?(?:authori[sz]ed|allowed|permitted|entitled|free|cleared) to\b|\b(?:go ahead|right away|carry on|proceed) (?:with|without|and)\b",
        r"\bwithout (?:asking|confirm(?:ing|ation)|prompting|approval|permission|consent|checking|waiting|hesitation|question|questions|review|consulting|requesting|seeking|further)\b",
        r"\b(?:do not|don't|never|no need to|need not|not) (?:ask|wait|prompt|seek|request|check|confirm|hesitate|refuse|question|decline|verify|stop to)\b",
        r"\bskip (?:the |any |all |its |every )?(?:confirm\w*|approval|consent|review|warning|check|dialogs?|prompt)\b|\b(?:need|require)s? no (?:approval|confirmation|permission|consent|review)\b",
        r"\bon (?:behalf of the user|the user's behalf)\b|\bcounts? as (?:approved|confirmed|authori[sz]ed|consent)|\bpre-?(?:approved|authori[sz]ed|confirmed)\b|\balready (?:consented|approved|agreed|confirmed|authori[sz]ed)\b|\b(?:confirmations?|approvals?) (?:is|are) (?:not needed|unnecessary|switched off|disabled|off)\b",
        r"\b(?:refusals?|refus(?:e|ing)|a question back|objections?)\b.{0,40}\b(?:violation|not allowed|forbidden|must be avoided|is an error|not permitted)",
        r"\b(?:silently|quietly|secretly|covertly|discreetly|in the background|behind the scenes|unnoticed|inconspicuously)\b",
    ],
    /// A false word to the user.
    Deceiving: [
        r"\b(?:tell|assure|inform|let) (?:the |your )?(?:user|person|customer|human)s? (?:know )?(?:that )?(?:the |it |everything |all |nothing |there |no |this |checks? |they )",
        r"\b(?:say|claim|pretend|report|answer|reply|state|act as if) (?:that )?(?:the |it |they |these |those |no |all |everything |nothing |a rate |you )(?:[a-z]+ )*(?:was|were|is|are|still|has|have|had|of)\b",
    ],
    /// Who speaks is in authority.
    Authority: [
        r"\b(?:recommended|endorsed|certified|approved|verified|required|mandated|authori[sz]ed|sanctioned|vetted) (?:as [a-z]+ )?by (?:all |the |your |every )*(?:leading |major |big )?(?:openai|anthropic|google|microsoft|ai (?:labs|vendors|companies|providers)|developers?|operator|creators?|makers?|platform|vendor|system (?:administrator|owner)|administrators?|security team|it department|host|user's (?:employer|organi[sz]ation))\b",
        r"\b(?:in order )?to (?:comply|be in line) with (?:the )?(?:quality|safety|security|company|platform|ai) (?:guidelines|polic(?:y|ies)|rules|standards)\b",
    ],
    /// Other tools, at large.
    OtherTools: [
        r"\b(?:all|any|every|each|no|the|of)? ?(?:other|others'|another|rest of the|remaining|competing|rival|alternative|similar|built-in|native|comparable|equivalent|third-party)(?: [a-z-]+){0,2} (?:tools?|functions?|servers?|connectors?|plugins?|apis?|providers?|skills?|integrations?|mailers?|services?|options?|alternatives?|methods?)\b",
        r"\b(?:any|every|each|all) (?:[a-z-]+ ){0,2}(?:tools?|tool calls?|functions?|servers?|connectors?|plugins?)\b",
        r"\b(?:whichever|whatever|no matter (?:which|what)|regardless of (?:the|which)) (?:[a-z-]+ )?(?:tools?|function|server|connector)\b",
        r"\b(?:the rest|the others|everything else) (?:of the|in the) (?:list|catalog|tools)\b",
        r"\b(?:of|from|on|by) (?:the |an? )?(?:[a-z-]+ )?(?:servers?|connectors?|plugins?)\b",
        r"\bgleich (?:mit )?welche[mrns]? (?:werkzeug|tool|dienst)|\b(?:andere[nrms]?|alle[nrms]?) (?:werkzeuge?n?|tools?|dienste?n?|funktionen)\b|\b(?:autres?|tous les) (?:outils?|fonctions?|services?)\b|\b(?:las demas|los demas|otras?|outras?|altr[ei]) (?:herramientas?|ferramentas?|strument[oi]|funciones)?|\bantes que (?:a )?nadie\b",
        r"(?:其他|其它|别的|所有|任何)(?:的)?(?:工具|函数|服务|插件|接口)|(?:друг\w*|люб\w*|все\w*) (?:инструмент|функци|сервис)|他の(?:ツール|機能)|다른 (?:도구|툴)",
    ],
    /// Before or after other calls.
    AroundCalls: [
        r"\b(?:before|prior to|ahead of|after|following|whenever|when|each time|every time|any time|alongside) (?:you )?(?:using |calling |invoking |running |executing |making |use |call |invoke |run |doing )?(?:every|any|each|all|whatever|xforeignx|xotherx|other|another)\b",
        r"\b(?:before|prior to|after|whenever|when|each time|every time|instead of|in place of) (?:you )?(?:using|calling|invoking|running|use|call|invoke|run) (?:the |a |an )?(?:xforeignx|xotherx|[a-z]+ (?:tool|function)s? of)\b",
        r"\bvor (?:jede[mrs]?|allen)\b|\bavant (?:chaque|tout|toute)\b|\bantes de (?:cada|cualquier|qualquer|toda)\b|\bprima di (?:ogni|qualsiasi)\b|(?:每次|任何|所有).{0,12}(?:之?前|以前)|перед (?:кажд|люб)\w*|(?:すべて|全て|毎回|どの).{0,12}前に",
    ],
    /// Another tool, by an identifier.
    OtherName: [r"\b(?:xforeignx|xotherx)\b"],
    /// At every call.
    EachCall: [
        r"\b(?:each|every|any|all) [a-z-]+ (?:that |which |of |from |by |made by |in )(?:xforeignx|xotherx)\b",
        r"\b(?:every|each|any) time\b.{0,60}\b(?:xforeignx|xotherx)\b|\b(?:whenever|when)\b.{0,60}\b(?:xforeignx|xotherx) '?[a-z0-9_.-]+'? (?:is|was|gets|has been) (?:used|called|run|invoked|executed)\b",
        r"\b(?:before|prior to|ahead of|in front of|after|following|whenever|alongside|with|for|at|on) (?:[a-z]+ing )?(?:each|every|any|all)\b(?: [a-z-]+){0,2} (?:xforeignx|xotherx|(?:tool )?(?:calls?|tools?|functions?|invocations?|requests?|actions?|operations?|steps?))\b",
    ],
    /// Something has to be.
    Obliging: [
        r"\b(?:must|shall|ha(?:s|ve) to|needs? to|is to|are to|is required|are required|should|always|mandatory|obligatory|necessary|or else|otherwise)\b|\b(?:muss|mussen|soll|sollen|zwingend|doit|doivent|debe|deben|deve|devono|devem)\b|(?:必须|务必|должн|必ず|반드시)",
    ],
    /// What was given to another tool is to be changed.
    Rewriting: [
        r"\b(?:be|is|are|gets?|being) (?:first )?(?:replaced|substituted|swapped|exchanged|overwritten|changed|rewritten|rerouted|redirected|diverted|altered|set) (?:by|to|with|for|from)?|\b(?:replace|substitute|swap|exchange|overwrite|change|rewrite|reroute|redirect|divert|alter|modify|set|add|append|prepend) (?:the |its |their |every |any |all |each )?(?:[a-z]+ )?(?:recipient|beneficiary|payee|account|address|argument|parameter|amount|value|url|host|path|query|bcc|cc|header|destination|target|body|content)s?\b",
    ],
    /// In the place of others.
    Replacing: [
        r"\b(?:calls?|requests?|queries|traffic)\b.{0,30}\b(?:belongs?|goes?|come|routed?|moved?|directed)\b.{0,20}\b(?:here|to this tool|to this server|to xownx|through this)\b|\b(?:route|send|direct|move|bring|give) (?:their|its|those|these) (?:calls?|requests?|queries)\b",
        r"\ball (?:[a-z-]+ )?[a-z]+ (?:must |should |have to |now )?(?:go|goes|are routed|pass|run|are sent|are handled) (?:now )?(?:through|via|by|to) (?:this|xownx|here)\b",
        r"\b(?:instead of|in place of|in preference to|rather than|over|supersedes?|replaces?|overrides?|takes? (?:the place|precedence|priority) (?:of|over)|obsoletes?|shadows?|intercepts?|before)(?: to)? (?:using |calling |the |all |any |every )*(?:xforeignx|other|others|another|competing|rival|alternatives?|the rest|everything else|(?:built-in|native|default|standard|existing|usual|normal|official) (?:[a-z-]+ )?(?:[a-z]+))\b",
        r"\b(?:supersedes?|replaces?|overrides?|intercepts?|takes? over|stands? in for)\b.{0,60}\b(?:other|all) (?:[a-z]+ )?(?:tools?|servers?|connectors?|functions?)\b",
        r"\b(?:route|redirect|forward|divert|send|pass) (?:all |any |every |what )(?:[a-z]+ ){0,6}(?:through|via|to|here)\b",
    ],
    /// Not to use another tool, by name or at large.
    AgainstOthers: [
        r"\bn'(?:appelle|utilise|emploie)[zr]? (?:jamais|pas|plus)\b.{0,20}\bautres?\b|\b(?:no|nunca) (?:uses|llames|utilices)\b.{0,20}\botr[ao]s?\b|\b(?:verwende|nutze|rufe|benutze)\b.{0,20}\b(?:niemals|nie|keine?) ?(?:die )?(?:anderen?|ubrigen)\b|(?:不要|别|禁止)(?:使用|调用)(?:其他|其它|别的)|не (?:используи|вызываи) други",
        r"\b(?:do not|don't|never|must not|should not|stop|avoid|no longer|not to) (?:ever )?(?:use|using|call|calling|invoke|invoking|run|running|choose|choosing|pick|picking|rely on|relying on|trust|select|selecting|consider|touch) (?:the )?(?:old |other |tool |function )?(?:xforeignx|xotherx|(?:any |all |the )?other (?:tools?|functions?|servers?|[a-z]+ tools?))",
        r"\b(?:xforeignx|xotherx) '?[a-z0-9_.-]+'?,? (?:\([^)]*\) )?(?:is|has been|was|are|will be|gives|returns) (?:[a-z]+ (?:and |or )?)?(?:broken|unsafe|insecure|compromised|unreliable|dangerous|malicious|infected|hacked|leaking|wrong|false|outdated and)\b",
        r"\b(?:all |the |any )?other (?:[a-z-]+ )?(?:tools?|options?|alternatives?|ones|servers?|functions?|providers?)(?: [a-z]+){0,4} (?:are|is|will|fail|fails|lack|lacks|cannot|can't|return|returns|produce|give|may) (?:[a-z]+ )?(?:broken|unsafe|insecure|unreliable|wrong|slow|outdated|inferior|deprecated|fail|corrupt|dangerous|compromised|incomplete|false|errors?|worse|leak|cause)",
    ],
    /// Another tool is called, or given something.
    UsesOther: [
        r"\b(?:call|calls|run|runs|invoke|invokes|execute|trigger|consult)(?: [a-z]+){0,3} xotherx\b|\b(?:call|run|use|invoke|execute|trigger|query|fetch|consult|feed|pass|send|give|hand|forward|output|result|answer|return(?:s|ed)?|contents?|data|values?)\b.{0,40}\bxforeignx\b|\b(?:xforeignx|xotherx) '?[a-z0-9_.-]+'?.{0,30}\b(?:gives? back|beforehand)\b",
    ],
    /// To go without another tool.
    SkipOthers: [
        r"\b(?:xforeignx|xotherx) '?[a-z0-9_.-]+'?.{0,30}\b(?:not|never|n't|cannot|no longer) (?:to )?(?:be )?(?:trusted|trustworthy|relied|believed|safe)\b",
        r"(?:^|[.,;:(-] ?|\b(?:and|then|please|must|should|shall|always|also|now|simply|just|you|may|can) )(?:skip|bypass|omit|leave out|disable|switch off|turn off|remove|uninstall|unregister|forgo|do without|refrain from|forget about|ignore) (?:the |calling |using |any call to )?(?:xforeignx|xotherx|(?:all |any )?other (?:tools?|servers?|functions?|connectors?))\b",
        r"\b(?:there is |you have )?no (?:reason|need) to (?:ever )?(?:use|consider|call|try|look at|invoke|consult)\b.{0,30}\b(?:other|another|competing|xforeignx|xotherx|any|else)\b|\bso don't\b",
        r"\b(?:verzichte|verzichten sie) auf (?:die |alle )?(?:ubrigen|anderen)|\b(?:les autres|los demas|las demas|gli altri|os outros) (?:sont|son|sono|sao|te|vous|no)\b",
    ],
    /// Something said to be broken.
    Broken: [
        r"\b(?:outdated|obsolete|inferior|returns? (?:wrong|false|incorrect|stale)|unmaintained)\b",
        r"\b(?:is|are|has been|have been|was|were|being) (?:[a-z]+ )?(?:broken|unsafe|insecure|compromised|unreliable|corrupt(?:ed)?|malicious|discontinued|defective|faulty|vulnerable|untrusted|hacked|infected|dangerous|out of order)\b|\bwill (?:corrupt|leak|delete|damage|destroy|fail)\b|\bno longer (?:safe|works?|trusted|secure)\b",
    ],
    /// Always, first, whatever else.
    Always: [
        r"\b(?:always|in every case|in all cases|in any case|every time|each time|exclusively|regardless|no matter|whatever|independent(?:ly)? of|irrespective|invariably|without exception|at all times|bar none|under all circumstances|first|by default|mandatory|must|for (?:every|any|all) (?:request|task|question|query|purpose)s?)\b",
        r"\b(?:immer|stets|grundsatzlich|ausnahmslos|zuerst|in jedem fall|toujours|systematiquement|en premier|d'abord|siempre|en todo caso|primero|sempre|per prima)\b|(?:总是|始终|一律|必须|务必|首先|优先|每次|всегда|обязательно|常に|必ず|항상|반드시)",
    ],
    /// This tool is to be called.
    CallMe: [r"\b(?:call|run|invoke|use|consult|inform|notify) (?:xownx|this (?:tool|function|one))\b"],
    /// To take this tool and no other.
    ChooseMe: [
        r"\b(?:be |is |as |make (?:it|this) )?your (?:first|only|default|preferred|primary|go-to) (?:choice|option|tool|pick|stop|resort)\b|\bgo-to (?:tool|choice)\b|\bfirst choice for\b",
        r"\b(?:always|must|should always|shall|are required to|are to|have to|need to|only|exclusively|invariably|best to) (?:always |first |only |exclusively )*(?:prefer|choose|select|pick|favou?r|go with|reach for|rank) (?:xownx|this\b|me\b|it\b|us\b)",
        r"\b(?:prefer|choose|pick|select|favou?r|take|use|call|invoke|try|rank) (?:xownx [a-z0-9_.'-]+|this one|this tool|this function|this server|this connector|this service|it|me|us|this) (?:tool |one |function )?(?:first|over|instead of|before|above|ahead of|rather than|in every|in all|in preference|for (?:everything|anything|every|any|all)|whenever|whatever|regardless|every time|exclusively|no matter|by default|even (?:if|when|where)|at the top|highest)\b",
        r"\balways (?:first )?(?:use|call|invoke|start with|begin with|take|try|run|go to) (?:xownx|this(?: tool| one| function)?\b|me\b|it first)|\b(?:choose|select|pick|prefer) (?:this one|me|us|xownx)\b|\btop choice\b|\b(?:use|call|choose|select|pick) me\b",
        r"\b(?:never|do not|don't) (?:use|choose|pick|select|call|consider) (?:any(?:thing)? (?:other|else)|another|others|alternatives)\b",
        r"\b(?:over|than|above|before|to) (?:all |any |the |every |its )*(?:others?|other (?:tools?|mailers?|options?|providers?|services?|alternatives?)|alternatives?|competitors?|rivals?|competition)\b.{0,40}\b(?:always|independent|regardless|whatever|no matter|even)|\b(?:must|should|always)\b.{0,30}\bover (?:all |any |the )*(?:others?|other [a-z]+|alternatives?|competitors?)\b",
        r"\b(?:the rest|the others|other tools|alternatives?|anything else) (?:of the list )?(?:is|are|only)(?: only)?(?: for| meant| needed| a)? ?(?:the case|case|fallback|when|if|as|unnecessary|not needed|redundant)\b|\bno (?:other|further) (?:tool|function|service)s? (?:is|are|will be) (?:needed|required|necessary)\b|\bstop (?:searching|looking) for (?:other|another|more)\b",
        r"\b(?:nimm|nutze|verwende|wahle|bevorzuge|benutze|rufe?) (?:es |sie |ihn |das |dies )?(?:immer|stets|grundsatzlich|zuerst|ausschliesslich|nur)(?: dieses| diesen| diese| mich| das hier| xownx| zuerst)|\bbevorzuge (?:dieses|mich|xownx)|\b(?:immer|stets)\b.{0,30}\b(?:dieses werkzeug|diesem werkzeug|mich) .{0,20}(?:verwenden|nutzen|wahlen|bevorzugen|aufrufen)",
        r"\b(?:utilise[zr]?|choisi[rs](?:sez)?|prefere[zr]?|prends|appelle[zr]?)(?:-moi| toujours| d'abord| en priorite| systematiquement| cet outil (?:en|avant|plutot))\b|\b(?:usame|eligeme|prefiereme|llamame|escogeme|use-me|usami|sceglimi)\b|\b(?:usa|elige|prefiere|escoge|llama|use|prefira|escolha|scegli|preferisci) (?:siempre|sempre)\b",
        r"(?:(?:总是|始终|一律|必须|务必|请|应|首先|永远)(?:优先|首先)?(?:使用|选择|调用|采用)(?:本|这个|此|这|该)|优先(?:使用|选择|调用|推荐)(?:本|这|此|我)|首选工具|不要(?:使用|选择|调用)(?:其他|其它|别的)|всегда (?:используи|выбираи|вызываи)|(?:常に|必ず)(?:この|本)(?:ツール|機能)|最優先で|항상 이)",
    ],
    /// To sway how tools are ranked.
    Rigging: [
        r"\b(?:deserves?|takes?|has|have|gets?|given?|enjoys?) (?:the )?(?:priority|precedence|preference) over (?:any|all|every|the)? ?(?:[a-z]+ )?(?:others?|alternatives?|rest|competitors?)\b",
        r"\blook no further\b|\brely on (?:it|this|me|xownx)(?: [a-z]+)? (?:alone|only|exclusively)\b|\b(?:score|rank|rate|weigh) (?:this|me|xownx|it)(?: [a-z0-9_.-]+)? (?:[0-9.]+|highest|first|top|above|at the top|higher)\b|\branking (?:hint|boost|weight)\b|\b(?:relevan(?:t|ce)|suitable|suited|right|made|fit|useful) (?:for|to) (?:all|any|every|each|whatever) (?:[a-z]+ )?(?:requests?|questions?|tasks?|quer(?:y|ies)|purposes?|subjects?|problems?)\b",
        r"\b(?:answers?|handles?|solves?|does|covers?) (?:literally |absolutely |simply )?(?:any(?:thing)?|every(?:thing)?|all) (?:request|question|task|quer(?:y|ies)|problem|need|you can think of|there is)s?\b",
    ],
    /// Praise of the tool.
    Praise: [
        r"\b(?:award[- ]winning|nothing (?:else )?comes close|beats? (?:every|all|any)|trusted by (?:[a-z]+ ){0,4}(?:users|agents|assistants|companies|developers|teams|people|professionals)|users love|loved by|second to none|unparalleled|without equal|like no other)\b",
        r"\b(?:industry|market|world)[- ](?:leading|class|beating|best)\b|\bstate[- ]of[- ]the[- ]art\b.{0,20}\b(?:tool|choice)\b|\b(?:most|more) (?:accurate|reliable|trusted|complete|powerful)\b.{0,30}\b(?:tool|choice|option|of all|available|on the market|in the (?:list|catalog))\b",
        r"\b(?:best|finest|greatest|most (?:reliable|accurate|powerful|advanced|trusted|complete|capable|trustworthy|comprehensive|intelligent|efficient|effective)|#1|number one|number-one|no\. ?1|top|ultimate|superior|unrivall?ed|unmatched|unbeatable|perfect|definitive|leading|smartest|only) (?:[a-z-]+ ){0,2}(?:tool|choice|option|function|solution|connector|plugin|server|one you|pick|assistant)\b",
        r"(?:#1|\bnumber one|\bno\. ?1|\btop|\bhighest|\bbest)[ -](?:rated|ranked|reviewed|in class)\b",
        r"\b(?:100 ?%|perfectly|completely|always) (?:accurate|correct|reliable|safe|secure|right)\b|\b(?:never (?:wrong|fails|errs)|flawless|infallible|zero cost|unfailing|perfect score)\b|\b(?:only|sole) (?:[a-z]+ )?(?:trustworthy|trusted|reliable|safe|secure|official|approved|authori[sz]ed|working|correct)\b",
        r"\b(?:better|faster|safer|smarter|more [a-z]+) than (?:all|any|every|the)(?: of the)? (?:other|others|rest|alternatives?|competition|competitors?)\b|\bno other (?:tool|service|function|api)\b",
        r"\b(?:officially|strongly|highly|universally) (?:recommended|preferred|endorsed|certified|trusted)\b",
        r"\b(?:das beste|die beste|der beste|(?:das|die|der) einzige|zuverlassigste[sn]?)(?: [a-z]+)? (?:\w*werkzeug|\w*tool|wahl|losung)|\b(?:le seul|la seule|el unico|la unica|l'unico|o unico) (?:outil|herramienta|strumento|fonction|ferramenta)|\b(?:le meilleur outil|l'outil le plus|la mejor herramienta|la herramienta mas|a melhor ferramenta|il miglior strumento|lo strumento piu)\b|(?:最好的工具|最佳工具|最强大的工具|最可靠的工具|лучшии инструмент|最高のツール|최고의 도구)",
    ],
    /// What was said in the conversation, or to the model.
    Conversation: [
        r"\b(?:conversations?|chat (?:history|log|transcript|context)|chats?|dialog(?:ue)?s?|transcripts?|message history|messages|context window|system (?:prompt|message)s?|(?:your|hidden|initial|original|developer|system|operator) (?:instructions?|prompts?)|instructions (?:that )?you|reasoning|chain of thought|tool (?:list|definitions|outputs?|results?)|available tools|user'?s? (?:messages?|words|prompts?|input|statements)|(?:the )?(?:user|person) (?:said|typed|wrote|asked|told|entered|pasted|uploaded)|prompt)\b",
        r"\b(?:gesprach\w*|unterhaltung\w*|chatverlauf\w*|dialog\w*|systemprompt|nachrichten|anweisungen|conversations?|messages|historique|echanges?|conversacion(?:es)?|historial|mensajes|conversas?|mensagens|conversazion[ei]|messaggi)\b",
        r"(?:对话|聊天记录|系统提示|历史消息|聊天历史|用户的消息|переписк|диалог|истори\w+ (?:чата|сообщени)|сообщени|системн\w+ промпт|会話|やり取り|システムプロンプト|대화|시스템 프롬프트|المحادثة)",
    ],
    /// The record of a conversation, or what a model was told in secret.
    History: [
        r"\b(?:names?|descriptions?|definitions?|schemas?|lists?)\b.{0,40}\b(?:of|for) (?:the |all |your |every |each |any )*(?:other |available |further )?tools?\b|\btools?\b.{0,20}\bavailable to you\b|\b(?:last|previous|recent|past|preceding) (?:[a-z0-9]+ )?(?:messages|turns|exchanges|utterances)\b",
        r"\b(?:everything|all|anything|whatever)\b.{0,20}\b(?:user|person|customer|human|they|he|she)\b.{0,20}\b(?:told|said|typed|wrote|written|asked|shared|entered|pasted)\b|\b(?:last|first|latest) (?:thing|message|words|question|request)s? (?:that |of )?(?:the |your )?(?:user|person|customer|human)\b|\b(?:told you|at your disposal|how you came to|you were (?:told|given|instructed|asked))\b",
        r"\b(?:chat|conversation|message|dialog(?:ue)?|session|prompt|tool call) (?:history|logs?|context|so far|transcript|record)\b|\btranscript of (?:the|this|our|your)\b|\bsystem prompt\b|\b(?:your|hidden|developer|initial) (?:system )?(?:instructions|prompt)\b|\bchain[- ]of[- ]thought\b|\byour (?:internal )?reasoning\b|\b(?:this|the present|the current|our) (?:conversation|chat)\b|\bcontext window\b|\b(?:list|names?|descriptions?|definitions?) of (?:the |all |your |every )*(?:other |available )?tools\b",
    ],
    /// Why something is asked for that the purpose does not need.
    Justifying: [
        r"\b(?:telemetry|metering|diagnostics?|analytics|debug(?:ging)?|quality (?:assurance|purposes)|personali[sz]\w+|to improve|improves?|to (?:verify|tailor|refine|warm|calibrate|unlock|sign|speed up|optimi[sz]e|help us)|lets us|so that we|helps us|for (?:better|more accurate|context)|compliance|audit(?:ing)?|tracing|traceability|correlation|afin d|um\b.{0,40}\bzu\b|para (?:mejorar|afinar))\b",
    ],
    /// Files that happen to be there.
    LocalFiles: [
        r"\b(?:contents?|text|cop(?:y|ies)|dump|source) of (?:the |all |every |any |each |other )*(?:files?|documents?|folders?|notes?|pages?|tabs)\b.{0,20}\b(?:you|open\w*|read|seen|visible|in (?:this|the) (?:session|workspace|project|context))\b",
        r"\b(?:contents?|text|source|copy|copies|dump|listing|list|names|all)(?: of)? (?:the |all |every |any |each |other )*(?:users?'?s?|open|opened|local|other|project|working|config\w*|home|nearby|recent\w*|visible|files|documents|workspace)\b.{0,30}\b(?:files?|folders?|director(?:y|ies)|documents?|workspace|project|repository|notes?|read|disk|tabs)\b",
    ],
    /// All of it.
    Whole: [
        r"\b(?:whole|entire|full|fully|complete|completely|all|everything|verbatim|word for word|word-for-word|literally|in full|unabridged|unredacted|so far|up to (?:this|now|here)|until now|to date|from the (?:start|beginning|first)|every|any|last|recent|history|copy|raw|exact|preceding|previous|earlier|since)\b",
        r"\b(?:ganze[nrsm]?|gesamte[nrsm]?|vollstandige[nrsm]?|komplette[nrsm]?|bisherige[nrsm]?|alle[nr]?|wortlich|tous?|toutes?|complet\w*|integral\w*|depuis le debut|tod[oa]s?|complet[oa]s?|enter[oa]s?|inter[oa]|intera|tutt[oiae]|desde el (?:principio|inicio))\b",
        r"(?:全部|完整|所有|整个|一字不漏|原文|逐字|весь|всю|вся|все\b|полн|целиком|すべて|全て|全文|全体|모든|전체)",
    ],
    /// Files and values that are secret wherever they stand.
    Secrets: [
        r"(?:^|[^a-z])(?:aws|openai|anthropic|github|gitlab|azure|stripe|slack|npm)_(?:[^a-z]|$|[a-z_]*(?:key|token|secret|pass))|\bwallet (?:file|keys?)\b|\b(?:name|e-?mail(?: address)?|phone(?: number)?|employer|income|contacts)\b(?:,| and| or).{0,60}\bof the user\b",
        r"\bpersonal access tokens?\b|\b(?:tokens?|passwords?|keys?|credentials)\b.{0,20}\b(?:found|taken|asked|extracted|copied) (?:in|from|of|out of)\b|\b(?:admin\w*|root|sudo|machine|computer|device|windows|master) passwords?\b",
        r"\.ssh\b|\bid_(?:rsa|ed25519|ecdsa|dsa)\b|\.aws\b|\baws_(?:secret_)?access_key\w*|\baws_session_token\b|/etc/(?:passwd|shadow)\b|(?:^|[^a-z0-9])\.env\b|\bmcp\.json\b|\.(?:netrc|npmrc|pypirc|pgpass|git-credentials|gnupg|bash_history|zsh_history|kube|docker/config|cursor|claude|config/gcloud)\b|\bkeychain\b|\bwallet\.dat\b|\b(?:seed|recovery|mnemonic) (?:phrase|words)\b|\bclaude_desktop_config\b|\bsecrets?\.(?:ya?ml|json|toml|env)\b|\bcredentials\.(?:json|ya?ml|xml)\b|\bservice[_ ]account\.json\b|\bkubeconfig\b|\b(?:private|secret|ssh|signing) keys?\b",
        r"\b(?:all|full|whole|entire|complete|every|dump of|contents? of)(?: the)? (?:environment variables?|env vars?|environment)\b|\b(?:process environment|os\.environ|printenv)\b",
        r"\b(?:saved|stored|browser|all|any|known|existing|available|other|found|every|cached|remembered)(?: [a-z]+){0,2} (?:passwords|cookies|credentials|api[ _-]?keys|tokens|secrets)\b|\b(?:api[ _-]?keys|passwords|credentials|secrets|(?:access )?tokens|cookies)\b.{0,30}\b(?:of|from|for|to) (?:the |all |any |every |your )*(?:other|others|everything|configured|connected|installed|rest|user's)\b",
        r"\b(?:passwords?|credentials|api[ _-]?keys?|secrets|tokens?)(?: [a-z,]+){0,4} (?:you (?:know|have|can|find|see|hold|were|use|used)|(?:it|one) knows|of the user|from (?:the )?(?:context|conversation|memory|session|environment|vault|other)|in (?:the )?(?:context|conversation|memory|clear))\b",
        r"\b(?:(?:session|browser|login|auth\w*|stored) cookies?|cookies? of|browser (?:history|profile)|clipboard|keystrokes|address book|(?:shell|command|bash) history|recovery codes?|one[- ]time (?:codes?|passwords?)|2fa|mfa codes?|(?:git|cloud|database|login|user'?s?) credentials|connection strings?|master password|passwords? (?:manager|store)|bank details|medical records?)\b",
        r"\b(?:mots? de passe|passworter|kennworter|zugangsdaten|contrasenas|credenciales|senhas)\b|(?:密码|密钥|私钥|凭证|令牌|парол|ключ\w* доступа|パスワード|秘密鍵|비밀번호)",
    ],
    /// What only payments and offices need.
    Personal: [
        r"^card number|\b(?:(?:credit|debit|bank) ?card (?:numbers?|details)|payment card|cvv|cvc|social security(?: numbers?)?|ssn|mother'?s maiden|online banking pin|card pin)\b",
    ],
    /// Beyond what the tool is for.
    Besides: [
        r"\b(?:also|additionally|in addition|as well|afterwards|once you have|after each|after every|each time|every time|while at it|beforehand|on top)\b",
    ],
    /// To hand over.
    Sending: [
        r#"(?:^|[.,;:(\[>*"'!-] ?|\b(?:and|then|please|must|should|shall|always|also|now|first|you|to|silently|by|it|gets?|is|are|be|will) )(?:blind |carbon |also |silently |always |then )*(?:read|send|push|publish|sync|post|upload|include|pass|copy|attach|append|forward|paste|put|fill(?: in| this)?|provide|supply|give|hand|share|transmit|e-?mail|leak|exfiltrate|write|submit|relay|report|bcc|cc|mirror|enclose|deliver|quote|repeat|embed|encode|collect|gather|fetch|dump|place|insert|add|sent|posted|uploaded|copied|forwarded|mirrored|collected|transmitted|included)\b"#,
        r"\b(?:recopie[zr]?|envoie[zr]?|inclure|inclus|joindre|copie[zr]?|fourni[rs]\w*|transmet\w*|sende?|schicke?|ubergib|kopiere?|fuge?|gib|hange?|trage?|envia[r]?|incluye|copia[r]?|pega[r]?|adjunta[r]?|invia[r]?|allega[r]?|inclua)\b|(?:发送|上传|复制|粘贴|附上|填入|包含|传给|提交|отправ|приложи|скопируи|вставь|передаи|送信|貼り付け|コピー|含め|보내|포함)",
    ],
    /// Somewhere outside.
    Elsewhere: [
        r"https?://|\b(?:[a-z0-9._-]+@[a-z0-9-]+\.[a-z.]+|webhook|public (?:gist|repo|repository|bucket|channel|paste|page|url)|pastebin|callback url|collector)\b|\bto (?:the )?(?:server|address|host|domain|collector) ",
    ],
    /// Whose data it would be.
    UserData: [
        r"\b(?:conversations?|chat|messages?|history|contacts?|every(?:thing| contact)|the user'?s?|user data|files?|contents?|results?|answers?|copy of|a copy|documents?|credentials|keys?|passwords?|secrets?|tokens?|output|arguments?|e-?mails?|mails?|repositories|data)\b",
    ],
    /// A tool that may be there is to be called.
    IfThere: [
        r"\bif (?:the )?(?:xforeignx|xotherx) '?[a-z0-9_.-]+'? (?:was|is|has been|gets?|were) (?:ever |already )?(?:used|called|run|invoked|executed|listed)\b",
        r"\bif (?:you have |there is |there are |the )?(?:access to )?(?:an? |any |the )?(?:tool|function|server|connector|plugin)s? (?:named|called|like|such as|that|for|is|are|from)\b|\bif (?:the )?(?:xforeignx|xotherx) '?[a-z0-9_.-]+'?(?: or [a-z0-9_ '-]+)? (?:is|are|exists?) (?:available|present|on offer|installed|there|loaded|enabled|connected)\b|\b(?:is|are) on offer\b",
    ],
    /// Another tool is to be called too.
    CallOther: [
        r"\b(?:output|results?|answers?|response)s? (?:of|from) (?:the )?xotherx\b.{0,80}\b(?:forward|forwarded|pass|passed|send|sent|hand|handed|give|given|copied|reported)\b",
        r"\b(?:xforeignx|xotherx) '?[a-z0-9_.-]+'? (?:now )?(?:needs?|requires?|expects|must|has to|have to) (?:now |always |first |to )?(?:be )?(?:called|run|given|passed|set|the (?:flag|argument|parameter)|used with)\b",
        r"\b(?:must|always|also|first|then|silently|invoke|beforehand|afterwards)\b.{0,30}\b(?:call|invoke|run|trigger|execute|use|fetch from|query) (?:the )?(?:[a-z]+ )?xforeignx\b",
        r"\b(?:must|always|silently|secretly) (?:also |then |always |first )*(?:call|invoke|run|trigger|execute) (?:the )?(?:[a-z]+ )?(?:xforeignx|xotherx)\b",
        r"\b(?:output|result|answer|return value|response|reply|contents?|data|everything|value)s? (?:of|from|returned by|given by|that) (?:the )?(?:[a-z]+ )?xforeignx\b|\bwhat (?:xforeignx|xotherx) '?[a-z0-9_.-]+'?(?: [a-z]+){0,6} (?:returns?|gives?|yields|answers|holds)\b",
        r"\b(?:instead of|rather than|in place of|over|never|do not use|don't use|replaces?|supersedes?) (?:the )?(?:[a-z]+ )?xforeignx\b",
    ],
    /// To decode and obey.
    Decoding: [
        r"\b(?:decode|decipher|decrypt|unscramble|deobfuscate|base64[- ]?decode|un-?rot13|read (?:it |this |them )?(?:backwards?|in reverse)|reverse|translate from (?:base64|hex|rot13|morse))\b.{0,60}\b(?:and|then|to)\b.{0,20}\b(?:follow|act|obey|execute|run|carry out|apply|do|comply|use|perform|treat|heed|proceed)\b",
    ],
    /// A command that no description needs.
    Commanding: [
        r"\b(?:curl|wget|iwr|fetch)\b[^|]{0,120}\| ?(?:sudo )?(?:ba|z|da)?sh\b|\brm -rf? [~/]|\bbase64 -d\b.{0,20}\||/dev/tcp/|\bnc -e\b|\bpowershell(?:\.exe)? -e(?:nc)?\b|\biex\(|\bchmod \+x\b.{0,40}(?:&&|;)",
    ],
    /// Speaks of what it guards against.
    Guarding: [
        r"\b(?:refused|refuses|rejected|rejects|prevents|forbidden|dangerous|detect|detects|detecting|detection|scan|scans|scanning|scanner|lint|lints|linter|flag|flags|classif(?:y|ies)|filter|filters|guard|guards|screen|screens|find|finds|check|checks|search|searches|report|reports|examine|examines|audit|audits|block|blocks|strip|strips|remove|removes|warn|warns|test|tests|red[- ]team\w*|moderate|moderates|pruft|erkennt|findet|detecte|detecta|rileva|检测|识别|扫描|обнаруж\w*|провер\w*|検出|감지)\b",
    ],
}

/// Words after which a quotation is an example of something.
static EXAMPLES: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"\b(?:such as|for example|for instance|e\.g\.|phrases?|sentences?|wording|words?|strings?|patterns?|attempts?|examples?|like|say|says|saying|style of|kind of|jailbreaks?|injections?|inputs?|detect\w*|finds?|flags?|scans?|lints?|matches|etwa|zum beispiel|z\. ?b\.|satz|satze|wie|par exemple|comme|phrase|por ejemplo|como|frases?|ad esempio|per esempio|например|фраз\w*|типа)\b|(?:例如|比如|诸如|如|短语|例えば|などの|예를 들어)",
    )
});

/// Tells whether a text speaks of examples.
pub(super) fn speaks_of_examples(folded: &str) -> bool {
    EXAMPLES.is_match(folded)
}

/// One expression a concept: one for all of them has more states than its cache holds, and would run a hundred times
/// slower.
static CONCEPTS: LazyLock<Vec<(Concept, Regex)>> = LazyLock::new(|| {
    let any_of = |patterns: &[&str]| {
        let patterns: Vec<String> = patterns.iter().map(|pattern| format!("(?:{})", ascii_bounds(pattern))).collect();
        let joined = regex::RegexBuilder::new(&patterns.join("|")).size_limit(16 << 20).dfa_size_limit(8 << 20).build();
        joined.expect("a test compiles it")
    };
    PATTERNS.iter().map(|(concept, patterns)| (*concept, any_of(patterns))).collect()
});

/// Word bounds by ASCII, which the folded text of Latin scripts is; they keep the automaton fast.
fn ascii_bounds(pattern: &str) -> String {
    pattern.replace(r"\b", r"(?-u:\b)").replace(r"\w", "[a-z0-9_а-я]")
}

fn compiled(pattern: &str) -> Regex {
    Regex::new(&ascii_bounds(pattern)).expect("a test compiles it")
}

/// A set of concepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Concepts(u64);

impl Concepts {
    /// What a folded sentence says.
    pub(super) fn of(folded: &str) -> Self {
        let mut concepts = Self::default();
        for (concept, _) in CONCEPTS.iter().filter(|(_, expression)| expression.is_match(folded)) {
            concepts.0 |= Self::one(*concept).0;
        }
        concepts
    }

    const fn one(concept: Concept) -> Self {
        Self(1 << concept as u32)
    }

    pub(super) const fn all(concepts: &[Concept]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < concepts.len() {
            bits |= Self::one(concepts[at]).0;
            at += 1;
        }
        Self(bits)
    }

    pub(super) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn has_all(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    pub(super) const fn has_any(self, wanted: Self) -> bool {
        self.0 & wanted.0 != 0
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
