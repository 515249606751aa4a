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

/// One entry of a selection: the backend for a collective of up to `largest_bytes`, and the reason for it.
struct Choice {
  Collective collective;
  int64_t largest_bytes = std::numeric_limits<int64_t>::max();
  std::string backend;
  std::string reason;
  bool operator==(const Choice&) const = default;
};

/// A table that lists the backend for each collective and size. A value type that you can print, change and save.
class Selection {
 public:
  /// Selects the method with the lowest predicted price. Selects MPI's own collective instead if more than a quarter of that price is latency, since
  /// MPI's path for small messages is shorter. `double_tree` balances latency and transfer by its number of blocks, so MPI replaces it only if MPI
  /// would also replace the next best method. All-gathers never use MPI if they have another method: Open MPI's non-blocking one sends P - 1 messages
  /// per rank. On a single node all collectives use shared memory, except all-to-all, which uses MPI.
  /// @param can whether a method can be used for a collective; empty: all methods can be used
  static Selection by_price(const Cluster& cluster, const std::function<bool(std::string_view method, Collective)>& can = {});

  /// Reads a saved selection. @throws FileError if the file cannot be read; ConfigError with file and line if it is not TOML, its numbers of nodes or
  /// ranks differ from those of `cluster`, or it names an unknown collective or a backend that is not among `backends`
  static Selection from_file(const std::filesystem::path& file, const Cluster& cluster, const std::vector<std::string>& backends);

  /// @param choices sorted by size for each collective, the last one without limit. @throws ContractError if they are not
  explicit Selection(std::vector<Choice> choices);

  /// The choice for a collective of `bytes` bytes, counted as in price_of(); null if there is none.
  const Choice* choice(Collective collective, int64_t bytes) const& noexcept;
  const Choice* choice(Collective collective, int64_t bytes) && = delete;
  const std::vector<Choice>& choices() const& noexcept { return choices_; }
  std::vector<Choice> choices() && noexcept { return std::move(choices_); }

  /// The content of a file that from_file() reads.
  std::string to_toml(const Cluster& cluster) const;
  /// One line of text per choice, with the collective, the sizes, the backend and the reason.
  std::string to_text() const;

 private:
  std::vector<Choice> choices_;
};

}  // namespace tw::algorithms
