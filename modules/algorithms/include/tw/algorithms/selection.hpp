// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <tw/algorithms/price.hpp>
#include <vector>

namespace tw::algorithms {

/// One entry of a selection: the backend for one collective of up to `largest_bytes` bytes, and the reason for this backend.
struct Choice {
  Collective collective;
  int64_t largest_bytes = std::numeric_limits<int64_t>::max();
  std::string backend;
  std::string reason;
  bool operator==(const Choice&) const = default;
};

/// A table that lists the backend for each collective and size. You can print and save it; to change it, construct another one from changed
/// choices().
class Selection {
 public:
  /// Selects the method with the lowest predicted price for each collective and size, with these exceptions:
  /// - If more than a quarter of that price is latency, selects MPI's own collective, whose path for small messages is shorter.
  /// - `double_tree` balances latency and transfer by its number of blocks. So MPI replaces it only if MPI would replace the next best method, too.
  /// - An all-gather never uses MPI if it has another method: Open MPI's non-blocking all-gather sends P - 1 messages per rank, for P ranks.
  /// - On a single node all collectives use shared memory, except all-to-all, which uses MPI.
  /// @param can whether a method of methods_for() can be used for a collective; empty: all can be used
  static Selection by_price(const Cluster& cluster, const std::function<bool(std::string_view method, Collective)>& can = {});

  /// Reads a saved selection. @throws FileError if the file cannot be read
  /// @throws ConfigError with file and line of each error: invalid TOML, an unknown key or collective, a backend that is not among `backends`,
  /// choices out of order, or `nodes` or `ranks_per_node` that differ from those of `cluster`
  static Selection from_file(const std::filesystem::path& file, const Cluster& cluster, const std::vector<std::string>& backends);

  /// @param choices consecutive for each collective, ascending by size; the last one of each collective has no limit. @throws ContractError if
  /// neighbouring choices for a collective do not ascend, or if the last of them has a limit
  explicit Selection(std::vector<Choice> choices);

  /// The choice for a collective of `bytes` bytes, counted as in price_of(); null if the collective has no choices.
  const Choice* choice(Collective collective, int64_t bytes) const& noexcept;
  const Choice* choice(Collective collective, int64_t bytes) && = delete;
  const std::vector<Choice>& choices() const& noexcept { return choices_; }
  std::vector<Choice> choices() && noexcept { return std::move(choices_); }

  /// The content of a file from which from_file() reads this selection; `cluster` is part of it.
  std::string to_toml(const Cluster& cluster) const;
  /// One line of text per choice, with the collective, the sizes, the backend and the reason.
  std::string to_text() const;

 private:
  std::vector<Choice> choices_;
};

}  // namespace tw::algorithms
