// SPDX-License-Identifier: Apache-2.0
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <tw/algorithms/selection.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/suggest.hpp>
#include <tw/base/text_stream.hpp>

#include "selection_names.hpp"

namespace tw::algorithms {
namespace {

/// The errors in the file, one per line.
class Problems {
 public:
  explicit Problems(const std::filesystem::path& file) : file_(file) {}

  template <class... Parts>
  void add(const toml::node* where, const Parts&... parts) {
    const auto line = where == nullptr ? 1 : where->source().begin.line;
    all_.push_back(concat(file_.string(), ":", line, ": ", parts...));
  }
  void end() const {
    if (!all_.empty()) throw ConfigError(all_);
  }

 private:
  std::filesystem::path file_;
  std::vector<std::string> all_;
};

void expect_number(const toml::table& table, const char* key, int64_t expected, Problems& problems) {
  const toml::node* node = table.get(key);
  const std::optional<int64_t> value = node == nullptr ? std::nullopt : node->value<int64_t>();
  if (value != expected)
    problems.add(node, key, " is ", expected, " in this job, but ", value ? concat(*value) : "missing or not an integer",
                 " in the file: measure a selection for this job");
}

std::string text_of(const toml::table& table, const char* key) { return table[key].value_or(std::string()); }

void expect_keys(const toml::table& table, const std::vector<std::string>& known, Problems& problems) {
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      problems.add(&value, "unknown key '", name, '\'', suggestion(name, known));
    }
  }
}

Choice read_choice(const toml::table& table, const std::vector<std::string>& backends, Problems& problems) {
  expect_keys(table, {"operation", "up_to_bytes", "backend", "reason"}, problems);
  Choice choice{Collective::none, std::numeric_limits<int64_t>::max(), text_of(table, "backend"), text_of(table, "reason")};
  const std::string operation = text_of(table, "operation");
  for (const Collective collective : selected_collectives) {
    if (name_of(collective) == operation) choice.collective = collective;
  }
  if (choice.collective == Collective::none)
    problems.add(&table, "operation is '", operation, "', but must be one of ",
                 joined(selected_collectives, ", ", [](Collective each) { return name_of(each); }));
  if (std::find(backends.begin(), backends.end(), choice.backend) == backends.end()) {
    problems.add(&table, "unknown backend '", choice.backend, '\'', suggestion(choice.backend, backends));
  }
  if (const toml::node* limit = table.get("up_to_bytes")) {
    choice.largest_bytes = limit->value<int64_t>().value_or(-1);
    if (choice.largest_bytes < 0) problems.add(limit, "up_to_bytes must be a number of bytes, at least 0");
  }
  return choice;
}

}  // namespace

Selection Selection::from_file(const std::filesystem::path& file, const Cluster& cluster, const std::vector<std::string>& backends) {
  const std::string content = read_file(file);
  toml::table table;
  Problems problems(file);
  try {
    table = toml::parse(content);
  } catch (const toml::parse_error& error) {
    throw ConfigError({concat(file.string(), ":", error.source().begin.line, ": ", std::string(error.description()))});
  }
  expect_keys(table, {"nodes", "ranks_per_node", "choice"}, problems);
  expect_number(table, "nodes", cluster.nodes, problems);
  expect_number(table, "ranks_per_node", cluster.ranks_per_node, problems);
  std::vector<Choice> choices;
  if (const toml::node* all = table.get("choice"); all != nullptr && !all->is_array_of_tables()) {
    problems.add(all, "choices must be tables, each under [[choice]]");
  } else if (const toml::array* list = table["choice"].as_array()) {
    for (const toml::node& node : *list) {
      choices.push_back(read_choice(*node.as_table(), backends, problems));
      const Collective collective = choices.back().collective;
      const bool goes_on = choices.size() > 1 && choices[choices.size() - 2].collective == choices.back().collective;
      if (goes_on && choices[choices.size() - 2].largest_bytes >= choices.back().largest_bytes) {
        problems.add(&node, "choices for one operation must ascend by size: up_to_bytes must be greater than ",
                     choices[choices.size() - 2].largest_bytes, " of the previous choice");
      }
      const auto is_earlier = [&](const Choice& earlier) { return earlier.collective == collective; };
      if (!goes_on && std::any_of(choices.begin(), choices.end() - 1, is_earlier)) {
        problems.add(&node, "move this choice to the others for ", name_of(collective), ": choices for one operation must be consecutive");
      }
    }
  }
  problems.end();
  for (size_t i = 0; i < choices.size(); ++i) {  // the last choice for an operation has no upper limit
    if (i + 1 == choices.size() || choices[i + 1].collective != choices[i].collective) choices[i].largest_bytes = std::numeric_limits<int64_t>::max();
  }
  return Selection(std::move(choices));
}

std::string Selection::to_toml(const Cluster& cluster) const {
  toml::table file{{"nodes", cluster.nodes}, {"ranks_per_node", cluster.ranks_per_node}};
  for (const Choice& choice : choices_) {
    toml::table entry{{"operation", name_of(choice.collective)}, {"backend", choice.backend}, {"reason", choice.reason}};
    if (choice.largest_bytes != std::numeric_limits<int64_t>::max()) entry.insert("up_to_bytes", choice.largest_bytes);
    file.emplace<toml::array>("choice").first->second.as_array()->push_back(std::move(entry));
  }
  TextWriter out;
  out << "# The backend for each collective and size.\n" << toml::toml_formatter(file, toml::format_flags::allow_unicode_strings) << '\n';
  return std::move(out).str();
}

}  // namespace tw::algorithms
