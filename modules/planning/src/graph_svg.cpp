// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/graph_svg.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/report/svg.hpp>

#include <tw/base/number_text.hpp>
#include "graph_layers.hpp"
#include "operator_order.hpp"
#include "stage_figures.hpp"
#include "text.hpp"

namespace tw::pipeline {
namespace {

// In pixels.
constexpr double margin = 16;
constexpr double line_height = 20;  // in the legend
constexpr double box_height = 26;
constexpr double layer_height = 56;
constexpr double gap = 20;  // between boxes
constexpr double character_width = 7.2;
constexpr size_t longest_label = 30;

// Light colours, on which black text is readable; adjacent ones differ.
constexpr std::array colours{"#9ecae1", "#fdae6b", "#a1d99b", "#f4b6d2", "#ffe08a", "#bcbddc", "#c7e9e5", "#d9c3a5"};
constexpr const char* no_colour = "#eeeeee";

using report::Point;
using report::Svg;

std::string label_of(const std::string& name) { return name.size() <= longest_label ? name : name.substr(0, longest_label - 1) + "~"; }

std::string colour_of(int stage) { return stage < 0 ? no_colour : colours[static_cast<size_t>(stage) % colours.size()]; }

class Drawing {
 public:
  Drawing(const Profile& profile, const Plan& plan) : profile_(profile), plan_(plan) {
    const std::vector<bool> sees = sees_batch(profile);
    stages_.assign(profile.operators.size(), -1);
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      for (const int op : plan.stages[s].operators) {
        if (sees[static_cast<size_t>(op)]) stages_[static_cast<size_t>(op)] = static_cast<int>(s);
      }
    }
    lay_out();
  }

  std::string draw() {
    Svg svg(width_, height_);
    legend(svg);
    Svg labels(width_, height_);  // drawn on top of the lines
    edges(svg, labels);
    box(svg, input_, "input", "", "white");
    for (size_t i = 0; i < places_.size(); ++i) {
      report::Attributes attributes{{"class", "operator"}};
      if (stages_[i] >= 0) attributes.emplace_back("data-stage", concat(stages_[i]));
      svg.begin_group(attributes);
      box(svg, places_[i], profile_.operators[i].name, what_of(i), colour_of(stages_[i]));
      svg.end_group();
    }
    svg.add(labels);
    return svg.file();
  }

 private:
  void lay_out() {
    size_t longest = 5;
    for (const ProfiledOperator& op : profile_.operators) longest = std::max(longest, std::min(longest_label, op.name.size()));
    box_width_ = static_cast<double>(longest) * character_width + 16;
    const std::vector<std::vector<int>> layers = layers_of(profile_);
    size_t most = 2;
    for (const std::vector<int>& layer : layers) most = std::max(most, layer.size());
    const double middle = margin + static_cast<double>(most + 1) * (box_width_ + gap) / 2;
    const double top = 2 * margin + line_height * static_cast<double>(plan_.stages.size() + 1);
    places_.resize(profile_.operators.size());
    for (size_t l = 0; l < layers.size(); ++l) {
      for (size_t i = 0; i < layers[l].size(); ++i) {
        const double place = static_cast<double>(i) - static_cast<double>(layers[l].size() - 1) / 2;
        places_[static_cast<size_t>(layers[l][i])] = {middle + place * (box_width_ + gap), top + layer_height * static_cast<double>(l + 1)};
      }
    }
    input_ = {middle, top};
    width_ = 2 * middle;
    height_ = top + layer_height * static_cast<double>(layers.size()) + box_height + margin;
  }

  void legend(Svg& svg) const {
    double y = margin;
    for (size_t s = 0; s < plan_.stages.size(); ++s, y += line_height) {
      const StagePlan& stage = plan_.stages[s];
      svg.rect({margin, y}, 14, 14, colour_of(static_cast<int>(s)), "", {{"stroke", "#555"}, {"class", "legend"}});
      svg.text({margin + 22, y + 12}, "start",
               concat("stage ", s, ": ", stage.operators.size(), stage.operators.size() == 1 ? " operator, " : " operators, ", stage.replicas,
                      stage.replicas == 1 ? " replica" : " replicas"));
    }
    svg.text({margin, y + 12}, "start",
             concat("micro-batches of ", plan_.rows(), plan_.rows() == 1 ? " row" : " rows", "; thick edges: from one stage to another"));
  }

  /// The tooltip of the box.
  std::string what_of(size_t op) const {
    const ProfiledOperator& profiled = profile_.operators[op];
    const int stage = stages_[op];
    if (stage < 0) return "without batch data: in every stage that uses it";
    const auto rows = static_cast<double>(share_of_rows(plan_.rows(), plan_.stages[static_cast<size_t>(stage)].replicas));
    double parameters = 0;
    for (const int parameter : profiled.parameters) parameters += profile_.parameters[static_cast<size_t>(parameter)].bytes;
    return concat("stage ", stage, ", forward ", fixed_text(1e3 * profiled.forward.of(rows), 3), " ms, backward ",
                  fixed_text(1e3 * profiled.backward.of(rows), 3), " ms, parameters ", bytes_text(parameters));
  }

  /// @param place the middle of its top edge, as for all places
  void box(Svg& svg, const Point& place, const std::string& name, const std::string& what, const std::string& colour) const {
    svg.rect({place.x - box_width_ / 2, place.y}, box_width_, box_height, colour, what.empty() ? name : concat(name, ": ", what),
             {{"rx", 4}, {"stroke", "#555"}});
    svg.text({place.x, place.y + 17}, "middle", label_of(name), {{"pointer-events", "none"}});
  }

  void edges(Svg& svg, Svg& labels) const {
    std::set<std::pair<int, int>> labelled;  // value, and stage that uses it
    for (size_t i = 0; i < places_.size(); ++i) {
      for (const int input : profile_.operators[i].inputs) {
        const Point& from = input < 0 ? input_ : places_[static_cast<size_t>(input)];
        const int home = input < 0 ? 0 : stages_[static_cast<size_t>(input)];
        const bool is_cut = home >= 0 && home != stages_[i];
        edge(svg, from, places_[i], is_cut);
        if (!is_cut || !labelled.emplace(input, stages_[i]).second) continue;
        const Affine& bytes = input < 0 ? profile_.input_bytes : profile_.operators[static_cast<size_t>(input)].output_bytes;
        const Point middle = middle_of(from, places_[i]);
        labels.text({middle.x + 6, middle.y + 4}, "start", bytes_text(bytes.of(static_cast<double>(plan_.rows()))),
                    {{"class", "bytes"}, {"fill", "#c0392b"}, {"stroke", "white"}, {"stroke-width", 3}, {"paint-order", "stroke"}});
      }
    }
  }

  bool is_next(const Point& from, const Point& to) const { return to.y - from.y <= layer_height; }
  /// How far to the right a line bends around the boxes that it passes.
  double bow(const Point& from, const Point& to) const { return 24 + 8 * std::log2((to.y - from.y) / layer_height); }

  Point middle_of(const Point& from, const Point& to) const {
    if (is_next(from, to)) return {(from.x + to.x) / 2, (from.y + box_height + to.y) / 2};
    return {(from.x + to.x + box_width_) / 2 + 0.75 * bow(from, to), (from.y + to.y + box_height) / 2};
  }

  void edge(Svg& svg, const Point& from, const Point& to, bool is_cut) const {
    const report::Attributes how{{"stroke-width", is_cut ? 3.0 : 1.0}, {"class", is_cut ? "cut" : "edge"}};
    const std::string colour = is_cut ? "#c0392b" : "#888";
    if (is_next(from, to)) {
      const double half = (from.y + box_height + to.y) / 2;
      svg.curve({from.x, from.y + box_height}, {from.x, half}, {to.x, half}, to, colour, how);
    } else {
      const Point begin{from.x + box_width_ / 2, from.y + box_height / 2};
      const Point end{to.x + box_width_ / 2, to.y + box_height / 2};
      const double out_there = bow(from, to);
      svg.curve(begin, {begin.x + out_there, begin.y}, {end.x + out_there, end.y}, end, colour, how);
    }
  }

  const Profile& profile_;
  const Plan& plan_;
  std::vector<int> stages_;    // by operator; -1: without batch data
  std::vector<Point> places_;  // by operator, the middle of its box's top edge
  Point input_;
  double box_width_ = 0;
  double width_ = 0;
  double height_ = 0;
};

}  // namespace

std::string graph_svg(const Profile& profile, const Plan& plan) {
  const std::vector<std::string> problems = problems_of(plan, profile, plan.devices());
  TW_EXPECTS(problems.empty(), problems.front());
  return Drawing(profile, plan).draw();
}

}  // namespace tw::pipeline
