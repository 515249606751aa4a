// SPDX-License-Identifier: Apache-2.0
// Assigns ranks to workers, and workers to islands, both in order. Pure.
#pragma once
#include <cstdint>
#include <tw/search/options.hpp>
#include <vector>

namespace tw::search {

class Layout {
 public:
  /// @param ranks number of ranks of the whole search
  Layout(int ranks, const SearchOptions& options);

  int workers() const noexcept { return static_cast<int>(first_rank_.size()) - 1; }
  int islands() const noexcept { return static_cast<int>(first_worker_.size()) - 1; }

  int worker_of_rank(int rank) const;
  int first_rank(int worker) const { return first_rank_[static_cast<size_t>(worker)]; }
  int ranks_of(int worker) const { return first_rank(worker + 1) - first_rank(worker); }

  int island_of(int worker) const;
  int first_worker(int island) const { return first_worker_[static_cast<size_t>(island)]; }
  int workers_of(int island) const { return first_worker(island + 1) - first_worker(island); }
  /// The worker of an island that becomes responsible for a trial that arrives there.
  int host_of(int64_t trial, int island) const { return first_worker(island) + static_cast<int>(trial % workers_of(island)); }
  bool operator==(const Layout&) const = default;

 private:
  std::vector<int> first_rank_;    // by worker; the last entry is the number of ranks
  std::vector<int> first_worker_;  // by island; the last entry is the number of workers
};

}  // namespace tw::search
