//! The charts of the page, as SVG with colours from the style of the page. One drawing serves the
//! light and the dark theme.

use kuva::backend::svg::SvgBackend;
use kuva::plot::{
    BandPlot, BarPlot, LegendEntry, LegendPosition, LegendShape, LinePlot, ScatterPlot,
};
use kuva::render::annotations::{ReferenceLine, TextAnnotation};
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;
use kuva::render::render::render_multiple;
use kuva::render::theme::Theme;

use super::tables::{Chart, cut, plain};

/// The most characters of a label.
const LABEL_CHARS: usize = 32;

/// The number of series colours in the style: `--series-1` and so on.
const SERIES_COLORS: usize = 6;

const WIDE: (f64, f64) = (1000.0, 400.0);
const HALF: (f64, f64) = (560.0, 380.0);

/// Draws the values of several series per group, between 0 and 1, side by side.
pub(super) fn bars(
    title: &str,
    value: &str,
    groups: &[(&str, Vec<f64>)],
    series: &[&str],
) -> Chart {
    let mut plot = BarPlot::new().with_width(0.85);
    for (name, values) in groups {
        let mut bars = Vec::new();
        for (index, value) in values.iter().enumerate() {
            bars.push((*value, series_color(index)));
        }
        plot = plot.with_group(label(name), bars);
    }
    let mut legend = Vec::new();
    for (index, name) in series.iter().enumerate() {
        legend.push(entry(name, &series_color(index), LegendShape::Rect));
    }
    let plots = vec![Plot::Bar(plot)];
    let layout = Layout::auto_from_plots(&plots)
        .with_y_label(value)
        .with_y_axis_min(0.0)
        .with_y_axis_max(1.0)
        .with_x_tick_rotate(-35.0)
        .with_legend_entries(legend)
        .with_legend_position(LegendPosition::OutsideRightTop);
    draw(title, plots, layout, WIDE)
}

/// Draws the share of relevant tools over the score, as `(score, share)` between 0 and 1, with the
/// diagonal of perfect calibration.
pub(super) fn reliability(title: &str, bins: &[(f64, f64)]) -> Chart {
    let ideal = LinePlot::new()
        .with_data([(0.0, 0.0), (1.0, 1.0)])
        .with_color("var(--muted)")
        .with_dashed();
    let line = LinePlot::new()
        .with_data(bins.iter().copied())
        .with_color(series_color(0))
        .with_stroke_width(1.5);
    let dots = ScatterPlot::new()
        .with_data(bins.iter().copied())
        .with_color(series_color(0))
        .with_size(4.5);
    let plots = vec![
        Plot::Line(ideal.with_stroke_width(1.0)),
        Plot::Line(line),
        Plot::Scatter(dots),
    ];
    let layout = Layout::new((0.0, 1.0), (0.0, 1.0))
        .with_x_label("mean score of the bin")
        .with_y_label("share of relevant tools")
        .with_clamp_axis();
    draw(title, plots, layout, HALF)
}

/// Draws the share of picks up to a time in microseconds, as `(time, share)`, and marks some times.
pub(super) fn latency(title: &str, points: &[(f64, f64)], marks: &[(&str, f64)]) -> Chart {
    let line = LinePlot::new()
        .with_data(points.iter().copied())
        .with_color(series_color(0))
        .with_step();
    let plots = vec![Plot::Line(line)];
    let mut layout = Layout::auto_from_plots(&plots)
        .with_log_x()
        .with_x_label("time of a pick, microseconds, logarithmic")
        .with_y_label("share of picks")
        .with_y_axis_min(0.0)
        .with_y_axis_max(1.0)
        .with_force_margins(64.0, 32.0);
    let span = match (points.first(), points.last()) {
        (Some(first), Some(last)) => last.0 / first.0,
        _ => 1.0,
    };
    for (index, (name, time)) in marks.iter().enumerate() {
        layout =
            layout.with_reference_line(ReferenceLine::vertical(*time).with_color("var(--muted)"));
        // The labels are next to their lines and below the curve. Each has a height of its own,
        // because times may be close together.
        let annotation = TextAnnotation::new(
            *name,
            time * span.powf(0.08).max(1.1),
            0.04 + 0.08 * index as f64,
        );
        layout = layout.with_annotation(annotation.with_font_size(11));
    }
    draw(title, plots, layout, HALF)
}

/// Draws differences in descending order, gains and losses in their own colours.
pub(super) fn differences(title: &str, measure: &str, sorted: &[(f64, f64)]) -> Chart {
    let area = |part: fn(f64) -> f64, color: &str| {
        let (x, y): (Vec<f64>, Vec<f64>) = sorted
            .iter()
            .map(|&(rank, value)| (rank, part(value)))
            .unzip();
        let zero = vec![0.0; x.len()];
        Plot::Band(
            BandPlot::new(x, zero, y)
                .with_color(color)
                .with_opacity(0.75),
        )
    };
    let plots = vec![
        area(|value| value.max(0.0), "var(--good)"),
        area(|value| value.min(0.0), "var(--bad)"),
    ];
    let layout = Layout::auto_from_plots(&plots)
        .with_x_label("requests, best difference first")
        .with_y_label(format!("difference in {measure}"))
        .with_y_axis_min(-1.0)
        .with_y_axis_max(1.0);
    draw(title, plots, layout, (WIDE.0, 320.0))
}

/// Draws histograms as steps of `(value, share)` between 0 and 1, one line per series.
pub(super) fn steps(title: &str, value: &str, series: &[(&str, Vec<(f64, f64)>)]) -> Chart {
    let mut plots = Vec::new();
    let mut legend = Vec::new();
    for (index, (name, points)) in series.iter().enumerate() {
        let color = series_color(index);
        legend.push(entry(name, &color, LegendShape::Line));
        let line = LinePlot::new()
            .with_data(points.iter().copied())
            .with_color(color)
            .with_step();
        plots.push(Plot::Line(line));
    }
    let layout = Layout::auto_from_plots(&plots)
        .with_x_label(value)
        .with_y_label("share of requests")
        .with_x_axis_min(0.0)
        .with_x_axis_max(1.0)
        .with_y_axis_min(0.0)
        .with_legend_entries(legend)
        .with_legend_position(LegendPosition::OutsideRightTop);
    draw(title, plots, layout, (HALF.0 + 140.0, HALF.1))
}

fn series_color(index: usize) -> String {
    format!("var(--series-{})", index % SERIES_COLORS + 1)
}

fn entry(name: &str, color: &str, shape: LegendShape) -> LegendEntry {
    LegendEntry {
        label: label(name),
        color: color.to_owned(),
        shape,
        dasharray: None,
    }
}

/// Returns a name as a label: short, without invisible characters, and with `$` escaped because it
/// would start a formula.
fn label(name: &str) -> String {
    plain(&cut(name, LABEL_CHARS)).replace('$', r"\$")
}

/// Draws the plots. `title` is the text alternative.
fn draw(title: &str, plots: Vec<Plot>, layout: Layout, (width, height): (f64, f64)) -> Chart {
    let layout = layout
        .with_theme(theme())
        .with_width(width)
        .with_height(height)
        .with_label_size(13);
    let layout = layout
        .with_tick_size(11)
        .with_body_size(12)
        .with_legend_box(false);
    let scene = render_multiple(plots, layout);
    let svg = SvgBackend::new().render_scene(&scene);
    // The opening tag has a fixed size, and a namespace that HTML does not need.
    let drawing = svg.split_once('>').map_or("", |(_, drawing)| drawing);
    Chart {
        title: title.to_owned(),
        width: scene.width,
        height: scene.height,
        drawing: drawing.to_owned(),
    }
}

fn theme() -> Theme {
    Theme {
        background: "none".to_owned(),
        axis_color: "var(--muted)".to_owned(),
        grid_color: "var(--grid)".to_owned(),
        tick_color: "var(--muted)".to_owned(),
        text_color: "var(--text)".to_owned(),
        legend_bg: "none".to_owned(),
        legend_border: "none".to_owned(),
        ..Theme::light()
    }
}
