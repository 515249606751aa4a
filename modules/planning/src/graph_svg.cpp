// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/graph_svg.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <sstream>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>

#include "graph_layers.hpp"
#include "operator_order.hpp"
#include "stage_figures.hpp"
#include "text.hpp"

namespace tw::pipeline {
namespace {

// In pixels.
constexpr double margin = 16;
constexpr double line_height = 20;  // of the legend
constexpr double box_height = 26;
constexpr double layer_height = 56;
constexpr double gap = 20;  // between boxes
constexpr double character_width = 7.2;
constexpr size_t longest_label = 30;

// Light, so that black text is read on each; neighbours differ.
constexpr std::array colours{"#9ecae1", "#fdae6b", "#a1d99b", "#f4b6d2", "#ffe08a", "#bcbddc", "#c7e9e5", "#d9c3a5"};
constexpr const char* no_colour = "#eeeeee";

struct Spot {
  double x = 0;  // of the middle
  double y = 0;  // of the top
};

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
    std::ostringstream out;
    out << R"(<svg xmlns="http://www.w3.org/2000/svg" width=")" << width_ << R"(" height=")" << height_
        << R"(" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>)" << '\n';
    legend(out);
    std::ostringstream labels;  // above the lines
    edges(out, labels);
    box(out, input_, "input", "", "white");
    for (size_t i = 0; i < places_.size(); ++i) {
      out << R"(<g class="operator")";
      if (stages_[i] >= 0) out << R"( data-stage=")" << stages_[i] << '"';
      out << '>';
      box(out, places_[i], profile_.operators[i].name, what_of(i), colour_of(stages_[i]));
      out << "</g>\n";
    }
    out << std::move(labels).str() << "</svg>\n";
    return std::move(out).str();
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

  void legend(std::ostream& out) const {
    double y = margin;
    for (size_t s = 0; s < plan_.stages.size(); ++s, y += line_height) {
      const StagePlan& stage = plan_.stages[s];
      out << R"(<rect class="legend" x=")" << margin << R"(" y=")" << y << R"(" width="14" height="14" fill=")" << colour_of(static_cast<int>(s))
          << R"(" stroke="#555"/><text x=")" << margin + 22 << R"(" y=")" << y + 12 << R"(">stage )" << s << ": "
          << concat(stage.operators.size(), stage.operators.size() == 1 ? " operator, " : " operators, ", stage.replicas,
                    stage.replicas == 1 ? " replica" : " replicas")
          << "</text>\n";
    }
    out << R"(<text x=")" << margin << R"(" y=")" << y + 12 << R"(">micro-batches of )" << plan_.rows() << (plan_.rows() == 1 ? " row" : " rows")
        << "; thick: from one stage to another</text>\n";
  }

  /// What appears when the pointer rests on the box.
  std::string what_of(size_t op) const {
    const ProfiledOperator& profiled = profile_.operators[op];
    const int stage = stages_[op];
    if (stage < 0) return "without batch data: in every stage that takes it";
    const auto rows = static_cast<double>(share_of_rows(plan_.rows(), plan_.stages[static_cast<size_t>(stage)].replicas));
    double parameters = 0;
    for (const int parameter : profiled.parameters) parameters += profile_.parameters[static_cast<size_t>(parameter)].bytes;
    return concat("stage ", stage, ", forward ", fixed(1e3 * profiled.forward.of(rows), 3), " ms, backward ",
                  fixed(1e3 * profiled.backward.of(rows), 3), " ms, parameters ", bytes_text(parameters));
  }

  void box(std::ostream& out, const Spot& place, const std::string& name, const std::string& what, const std::string& colour) const {
    out << R"(<rect x=")" << place.x - box_width_ / 2 << R"(" y=")" << place.y << R"(" width=")" << box_width_ << R"(" height=")" << box_height
        << R"(" rx="4" fill=")" << colour << R"(" stroke="#555"><title>)" << xml_escaped(name) << (what.empty() ? "" : ": ") << xml_escaped(what)
        << R"(</title></rect><text x=")" << place.x << R"(" y=")" << place.y + 17 << R"(" text-anchor="middle" pointer-events="none">)"
        << xml_escaped(label_of(name)) << "</text>";
  }

  void edges(std::ostream& out, std::ostream& labels) const {
    std::set<std::pair<int, int>> labelled;  // value, stage that takes it
    for (size_t i = 0; i < places_.size(); ++i) {
      for (const int input : profile_.operators[i].inputs) {
        const Spot& from = input < 0 ? input_ : places_[static_cast<size_t>(input)];
        const int home = input < 0 ? 0 : stages_[static_cast<size_t>(input)];
        const bool is_cut = home >= 0 && home != stages_[i];
        edge(out, from, places_[i], is_cut);
        if (!is_cut || !labelled.emplace(input, stages_[i]).second) continue;
        const Affine& bytes = input < 0 ? profile_.input_bytes : profile_.operators[static_cast<size_t>(input)].output_bytes;
        const Spot middle = middle_of(from, places_[i]);
        labels << R"(<text class="bytes" x=")" << middle.x + 6 << R"(" y=")" << middle.y + 4
               << R"(" fill="#c0392b" stroke="white" stroke-width="3" paint-order="stroke">)"
               << bytes_text(bytes.of(static_cast<double>(plan_.rows()))) << "</text>\n";
      }
    }
  }

  bool is_next(const Spot& from, const Spot& to) const { return to.y - from.y <= layer_height; }
  /// How far a line leaves the boxes that it passes to its right.
  double bow(const Spot& from, const Spot& to) const { return 24 + 8 * std::log2((to.y - from.y) / layer_height); }

  Spot middle_of(const Spot& from, const Spot& to) const {
    if (is_next(from, to)) return {(from.x + to.x) / 2, (from.y + box_height + to.y) / 2};
    return {(from.x + to.x + box_width_) / 2 + 0.75 * bow(from, to), (from.y + to.y + box_height) / 2};
  }

  void edge(std::ostream& out, const Spot& from, const Spot& to, bool is_cut) const {
    out << R"(<path class=")" << (is_cut ? "cut" : "edge") << R"(" fill="none" stroke=")" << (is_cut ? "#c0392b" : "#888") << R"(" stroke-width=")"
        << (is_cut ? 3 : 1) << R"(" d="M)";
    if (is_next(from, to)) {
      const double half = (from.y + box_height + to.y) / 2;
      out << from.x << ' ' << from.y + box_height << " C" << from.x << ' ' << half << ' ' << to.x << ' ' << half << ' ' << to.x << ' ' << to.y;
    } else {
      const double side = box_width_ / 2;
      const double out_there = bow(from, to);
      const double y = from.y + box_height / 2;
      const double end = to.y + box_height / 2;
      out << from.x + side << ' ' << y << " C" << from.x + side + out_there << ' ' << y << ' ' << to.x + side + out_there << ' ' << end << ' '
          << to.x + side << ' ' << end;
    }
    out << "\"/>\n";
  }

  const Profile& profile_;
  const Plan& plan_;
  std::vector<int> stages_;  // by operator; -1: without batch data
  std::vector<Spot> places_;
  Spot input_;
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
