// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <iosfwd>
#include <optional>
#include <tw/base/progress_bar.hpp>
#include <tw/train/observer.hpp>
#include <tw/train/options.hpp>

namespace tw::train {

/// Shows a run to a person: a progress bar an epoch (plain lines where there is no terminal) and a summary at the end.
class Console : public Observer {
 public:
  /// @param out kept by reference.
  Console(std::ostream& out, bool terminal, const Options& options);

  void on_epoch_begin(int64_t epoch, int64_t samples) override;
  void on_step(const StepReport& report) override;
  void on_epoch_end(const EpochReport& report) override;
  void on_end(const Summary& summary) override;

 private:
  std::ostream& out_;
  bool terminal_;
  Options options_;
  std::optional<ProgressBar> bar_;
};

}  // namespace tw::train
