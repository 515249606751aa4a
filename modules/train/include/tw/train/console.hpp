// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <iosfwd>
#include <optional>
#include <string>
#include <tw/base/progress_bar.hpp>
#include <tw/train/hook.hpp>

namespace tw::train {

/// Prints a run's progress: a progress bar per epoch (plain lines without a terminal) and a summary at the end. Use it on rank 0 only.
class Console : public Hook {
 public:
  /// @param out kept by reference. @param terminal whether `out` is a terminal. @param unit a noun for the samples, such as "images".
  Console(std::ostream& out, bool terminal, std::string unit = "samples");

  void on_start_epoch(State& state) override;
  void on_update(State& state) override;
  void on_end_epoch(State& state, const EpochReport& report) override;
  void on_end(State& state, const Summary& summary) override;

 private:
  std::ostream& out_;
  bool terminal_;
  std::string unit_;
  std::optional<ProgressBar> bar_;
};

}  // namespace tw::train
