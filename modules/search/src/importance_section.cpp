// SPDX-License-Identifier: Apache-2.0
#include "importance.hpp"

#include <algorithm>
#include <numeric>

#include "finite_text.hpp"
#include "report_sections.hpp"

namespace tw::search {
namespace {

constexpr struct {
  double width = 400;
  double label = 300;
  double line_height = 20;
} bar_chart;

constexpr const char* method =
    "The share of the variance of the losses' ranks that lies between the means of bins of a parameter's values, less what chance would put there "
    "(first-order functional ANOVA, Hutter, Hoos and Leyton-Brown 2014, estimated from the trials as they are, Plischke, Borgonovo and Smith 2013; "
    "epsilon squared, Kelley 1935). Shares need not sum to 100 %: what parameters do together, and noise, is in none. A search looks at good regions "
    "more often than at others, and the shares are of what it looked at; parameters that went together share what they explain.";

}  // namespace

std::string importance_section(const Findings& findings) {
  const std::vector<double> shares = importance(findings.ledger, findings.space);
  if (shares.empty()) return "";
  std::vector<size_t> order(shares.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return shares[i]; });
  Svg svg(bar_chart.label + bar_chart.width + 60, bar_chart.line_height * static_cast<double>(shares.size()) + 8);
  double y = 4;
  for (const size_t i : order) {
    svg.text({bar_chart.label - 8, y + 13}, "end", findings.space.parameters()[i].name);
    svg.rect({bar_chart.label, y + 2}, bar_chart.width * shares[i], bar_chart.line_height - 6, "#0072b2");
    svg.text({bar_chart.label + bar_chart.width * shares[i] + 6, y + 13}, "start", brief_text(std::round(1000 * shares[i]) / 10) + " %");
    y += bar_chart.line_height;
  }
  return element("h2", "Importance of parameters") + svg.in_page() + "<p class=\"note\">" + escaped(method) + "</p>\n";
}

}  // namespace tw::search
