// SPDX-License-Identifier: Apache-2.0
#include "agreed_options.hpp"

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>

namespace tw::train {

Options agreed_options(const Communicator& comm, const Options& options, const Dataset& train, const Dataset& test, const Dataset* validation,
                       const Objective& objective) {
  std::vector<std::string> lines = value_lines(options);
  lines.push_back(concat("resume ", static_cast<int>(options.resume)));
  lines.push_back(concat("trace ", options.trace.empty() ? "none" : "given"));
  lines.push_back(concat("training samples ", train.size()));
  lines.push_back(concat("test samples ", test.size()));
  lines.push_back(concat("validation samples ", validation != nullptr ? validation->size() : 0));
  for (const Metric& metric : objective.metrics) lines.push_back("metric " + metric.name);
  expect_same_on_all_ranks(comm, "the trainer's options", lines);
  options.validate();
  TW_EXPECTS(train.size() > 0, "there is nothing to train on");
  const bool may_stop = options.early_stopping.patience == 0 || (validation != nullptr && validation->size() > 0);
  TW_EXPECTS(may_stop, "early_stopping.patience is ", options.early_stopping.patience,
             ", but there is no validation set to decide by: give the trainer one (in a configuration: data.validation)");
  const auto& watch = options.early_stopping.watch;
  const bool known =
      watch == "loss" || std::any_of(objective.metrics.begin(), objective.metrics.end(), [&](const Metric& m) { return m.name == watch; });
  TW_EXPECTS(known, "early_stopping.watch is '", watch, "', which is neither loss nor a metric of the objective");
  return options;
}

}  // namespace tw::train
