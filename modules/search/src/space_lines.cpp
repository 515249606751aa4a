// SPDX-License-Identifier: Apache-2.0
// The number or names of items come before the items. Otherwise a rank that lacks an item would be reported as having the next line in its place.
#include "space_lines.hpp"

#include <tw/base/concat.hpp>
#include <tw/base/exact_text.hpp>

namespace tw::search {
namespace {

std::string text_of_list(const std::string& name, const std::vector<std::string>& list) {
  std::string text = name + ':';
  for (size_t i = 0; i < list.size(); ++i) text += (i == 0 ? " " : ", ") + list[i];
  return text;
}

std::string text_of_numbers(const std::string& name, const std::vector<double>& numbers) {
  std::string text = name + ':';
  for (const double each : numbers) text += ' ' + exact_text(each);
  return text;
}

const char* name_of(Parameter::Kind kind) {
  switch (kind) {
    case Parameter::Kind::real: return "real";
    case Parameter::Kind::integer: return "integer";
    case Parameter::Kind::ordinal: return "ordinal";
    case Parameter::Kind::categorical: return "categorical";
  }
  return "?";
}

/// A starting configuration. Numbers have all digits.
std::string line_of_start(const Space& space, const std::vector<double>& values) {
  std::string text = "start:";
  for (size_t i = 0; i < values.size(); ++i) text += concat(' ', space.parameters()[i].name, '=', space.parameters()[i].text_of(values[i]));
  return text;
}

std::string line_of(const Parameter& p) {
  std::string text = concat("parameter ", p.name, ": ", name_of(p.kind));
  if (p.kind == Parameter::Kind::ordinal) text += text_of_numbers(", values", p.numbers);
  if (p.kind == Parameter::Kind::categorical) text += text_of_list(", values", p.choices);
  if (!p.has_choices()) text += concat(", ", exact_text(p.low), " to ", exact_text(p.high), p.scale == Scale::logarithmic ? ", logarithmic" : "");
  if (p.step > 0) text += ", step " + exact_text(p.step);
  if (!p.parent.empty()) text += text_of_list(", when " + p.parent, p.allowed);
  return p.initial.empty() ? text : text + ", starting at " + p.initial;
}

}  // namespace

std::vector<std::string> lines_of(const Space& space) {
  std::vector<std::string> names;
  for (const Parameter& each : space.parameters()) names.push_back(each.name);
  std::vector<std::string> lines{text_of_list("parameters", names), text_of_list("constraints", space.constraints())};
  for (const Parameter& each : space.parameters()) lines.push_back(line_of(each));
  lines.push_back(concat("starts: ", space.starts().size()));
  for (const std::vector<double>& each : space.starts()) lines.push_back(line_of_start(space, each));
  return lines;
}

}  // namespace tw::search
