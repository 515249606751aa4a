// SPDX-License-Identifier: Apache-2.0
#include "agreed_options.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/file.hpp>
#include <tw/comm/agreement.hpp>

namespace tw::train {
namespace {

bool is_plain(const std::string& name) {
  if (std::any_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; })) return false;
  try {
    (void)nlohmann::json(name).dump();
  } catch (const nlohmann::json::exception&) {  // not UTF-8
    return false;
  }
  return !name.empty();
}

// Names become columns of metrics.csv and keys of metrics.jsonl.
void expect_names(const std::vector<Metric>& metrics) {
  std::set<std::string> names{"loss"};
  for (const Metric& metric : metrics) {
    TW_EXPECTS(is_plain(metric.name), "a metric's name must be text in UTF-8 without control characters, got \"", metric.name, '"');
    TW_EXPECTS(names.insert(metric.name).second, "two metrics are called ", metric.name, ": each metric needs its own name, other than loss");
  }
}

}  // namespace

Options agreed_options(const Communicator& comm, const Options& options, const Dataset& train, const Dataset& test, const Dataset* validation,
                       const Objective& objective) {
  std::vector<std::string> lines = value_lines(options);
  lines.push_back(concat("resume ", static_cast<int>(options.resume)));
  lines.push_back(concat("trace ", options.trace.empty() ? "none" : "given"));
  lines.push_back(concat("training samples ", train.size()));
  lines.push_back(concat("test samples ", test.size()));
  lines.push_back(concat("validation samples ", validation != nullptr ? validation->size() : 0));
  const auto weighs = [](const Weight& weight) { return weight ? "its weight function" : "the number of samples"; };
  lines.push_back(concat("the loss is divided by ", weighs(objective.weight)));
  for (const Metric& metric : objective.metrics) lines.push_back(concat("metric ", metric.name, " is divided by ", weighs(metric.weight)));
  expect_same_on_all_ranks(comm, "the trainer's options", lines);
  options.validate();
  expect_names(objective.metrics);
  TW_EXPECTS(train.size() > 0, "the training set is empty");
  const bool may_stop = options.early_stopping.patience == 0 || (validation != nullptr && validation->size() > 0);
  TW_EXPECTS(may_stop, "early_stopping.patience is ", options.early_stopping.patience,
             ", but there is no validation set, which early stopping needs: pass one to the trainer (in a configuration: data.validation)");
  const auto& watch = options.early_stopping.watch;
  const bool known =
      watch == "loss" || std::any_of(objective.metrics.begin(), objective.metrics.end(), [&](const Metric& m) { return m.name == watch; });
  TW_EXPECTS(known, "early_stopping.watch is '", watch, "', which is neither loss nor a metric of the objective");
  Options agreed = options;
  on_all_ranks(comm, "finding the folder of the run", [&] {
    agreed.output = absolute_path(options.output);
    agreed.trace = absolute_path(options.trace);
  });
  return agreed;
}

}  // namespace tw::train
