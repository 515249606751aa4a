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

/// A line of a selection: which backend does a collective of up to so many bytes, and why.
struct Choice {
  Collective collective;
  int64_t largest_bytes = std::numeric_limits<int64_t>::max();
  std::string backend;
  std::string reason;
  bool operator==(const Choice&) const = default;
};

/// The table that says which backend does which collective of which size. A value: print it, change it, save it.
class Selection {
 public:
  /// By formula: the way of the lowest price, or MPI's own where more than a quarter of that is latency, since its path for small messages is shorter
  /// than ours. (Of `double_tree`, whose blocks are as many as balance it, only where it is so of the next way too. All-gathers are
  /// never left to MPI: Open MPI's non-blocking one has P - 1 messages a rank.)
  /// @param can whether a way can be gone; empty: all can
  static Selection by_price(const Cluster& cluster, const std::function<bool(std::string_view way, Collective)>& can = {});

  /// One that was saved. @throws ConfigError, naming file and line, where it is for other nodes or ranks than `cluster` has, or for a collective or a
  /// backend that there is not
  static Selection from_file(const std::filesystem::path& file, const Cluster& cluster, const std::vector<std::string>& backends);

  /// @param choices of each collective in the order of their sizes, the last one without limit. @throws ContractError where they are not
  explicit Selection(std::vector<Choice> choices);

  /// The line for a collective of so many bytes, as price_of() counts them; null: it is of no account here.
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
