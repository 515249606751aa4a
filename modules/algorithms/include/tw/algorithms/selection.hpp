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

/// A line of a selection: the backend for a collective of up to `largest_bytes`, and the reason for it.
struct Choice {
  Collective collective;
  int64_t largest_bytes = std::numeric_limits<int64_t>::max();
  std::string backend;
  std::string reason;
  bool operator==(const Choice&) const = default;
};

/// A table of the backend for each collective and size. A value: print it, change it, save it.
class Selection {
 public:
  /// By formula: the method with the lowest price, or MPI's own where more than a quarter of that price is latency, since its path for small messages
  /// is shorter than ours. (For `double_tree`, whose number of blocks balances latency and transfer, only where this holds for the next method too.
  /// All-gathers are never left to MPI: Open MPI's non-blocking one has P - 1 messages a rank.)
  /// @param can whether a method can be used; empty: all can
  static Selection by_price(const Cluster& cluster, const std::function<bool(std::string_view method, Collective)>& can = {});

  /// One that was saved. @throws ConfigError, naming file and line, where it is for other numbers of nodes or ranks than `cluster` has, or for an
  /// unknown collective or backend
  static Selection from_file(const std::filesystem::path& file, const Cluster& cluster, const std::vector<std::string>& backends);

  /// @param choices of each collective in the order of their sizes, the last one without limit. @throws ContractError where they are not
  explicit Selection(std::vector<Choice> choices);

  /// The line for a collective of `bytes` bytes, as price_of() counts them; null: no line covers it.
  const Choice* choice(Collective collective, int64_t bytes) const noexcept;
  const std::vector<Choice>& choices() const noexcept { return choices_; }

  /// As a file that from_file() reads.
  std::string to_toml(const Cluster& cluster) const;
  /// As lines such as "allreduce  up to 16 KiB  mpi  ring would take at 256 bytes 0.05 ms, of which latency 0.05 ms".
  std::string to_text() const;

 private:
  std::vector<Choice> choices_;
};

}  // namespace tw::algorithms
