// SPDX-License-Identifier: Apache-2.0
#include "stage_search.hpp"

#include <algorithm>
#include <cmath>
#include <tw/base/numbers.hpp>

#include "stage_table.hpp"

namespace tw::pipeline {
namespace {

/// Dynamic programming: F(s, b, d) is the least sum of tau over s stages for the blocks from b on, on at most d devices, with no load above the
/// bound.
class StageDynamics {
 public:
  StageDynamics(const StageTable& table, const SearchSetting& setting)
      : table_(table),
        setting_(setting),
        max_stages_(std::min({setting.max_stages, setting.devices / setting.min_replicas, table.blocks()})),
        row_(setting.is_uniform() ? 1 : static_cast<size_t>(setting.devices) + 1),
        sums_(static_cast<size_t>(max_stages_ + 1) * static_cast<size_t>(table.blocks() + 1) * row_) {
    for (size_t which = 0; which < table.replicas().size(); ++which) {
      for (int begin = 0; begin < table.blocks(); ++begin) last_ends_.push_back(table.last_end(which, begin));
    }
  }

  int max_stages() const noexcept { return max_stages_; }

  /// @param bound at most that of the last call
  void solve(double bound) {
    bound_ = bound;
    for (size_t which = 0; which < table_.replicas().size(); ++which) {
      for (int begin = 0; begin < table_.blocks(); ++begin) {
        int& end = last_end(which, begin);
        while (end > begin && !table_.is_within(which, begin, end, bound)) --end;
      }
    }
    std::fill(sums_.begin(), sums_.end(), infinity);
    std::fill_n(sums(0, table_.blocks()), row_, 0.0);
    for (int stages = 1; stages <= max_stages_; ++stages) {
      // Each earlier stage has at least one block.
      for (int begin = std::max(0, setting_.min_stages - stages); begin <= table_.blocks() - stages; ++begin) relax(stages, begin);
    }
  }

  double sum_of(int stages) const { return sums(stages, 0)[row_ - 1]; }

  /// The stages of the best plan, without their recomputation. @param load set to the largest load
  std::vector<StageChoice> trace(int stages, double& load) const {
    std::vector<StageChoice> choices;
    load = 0;
    int begin = 0;
    for (size_t devices = row_ - 1; stages > 0; --stages) {
      const StageChoice choice = step(stages, begin, devices, load);
      choices.push_back(choice);
      begin = choice.end;
      devices -= counted(choice.replicas);
    }
    return choices;
  }

 private:
  double* sums(int stages, int begin) {
    return sums_.data() + (static_cast<size_t>(stages) * static_cast<size_t>(table_.blocks() + 1) + static_cast<size_t>(begin)) * row_;
  }
  const double* sums(int stages, int begin) const { return const_cast<StageDynamics*>(this)->sums(stages, begin); }
  // Devices of a stage, if they are counted.
  size_t counted(int replicas) const { return setting_.is_uniform() ? 0 : static_cast<size_t>(replicas); }
  const SearchCost* cost(size_t which, int begin, int end, int stages) const {
    const SearchCost* found = table_.find(which, begin, end, setting_.in_flight(stages));
    return found != nullptr && found->load <= bound_ ? found : nullptr;
  }
  // The last end of a range from `begin` on that is within the bound.
  int& last_end(size_t which, int begin) { return last_ends_[which * static_cast<size_t>(table_.blocks()) + static_cast<size_t>(begin)]; }
  // The range of block ends for the first of `stages` stages; the last stage ends at the last block.
  std::pair<int, int> ends(int stages, int begin) const {
    return stages == 1 ? std::pair(table_.blocks(), table_.blocks()) : std::pair(begin + 1, table_.blocks() - stages + 1);
  }

  void relax(int stages, int begin) {
    double* best = sums(stages, begin);
    const auto [first, last] = ends(stages, begin);
    for (size_t which = 0; which < table_.replicas().size(); ++which) {
      const size_t replicas = counted(table_.replicas()[which]);
      for (int end = first; end <= std::min(last, last_end(which, begin)); ++end) {
        const double* rest = sums(stages - 1, end);
        if (rest[row_ - 1] == infinity) continue;  // more devices never make it longer
        const SearchCost* stage = cost(which, begin, end, stages);
        if (stage == nullptr) continue;
        const double tau = stage->tau;
        for (size_t devices = replicas; devices < row_; ++devices) best[devices] = std::min(best[devices], tau + rest[devices - replicas]);
      }
    }
  }

  StageChoice step(int stages, int begin, size_t devices, double& load) const {
    const double sum = sums(stages, begin)[devices];
    const auto [first, last] = ends(stages, begin);
    for (size_t which = 0; which < table_.replicas().size(); ++which) {
      const size_t replicas = counted(table_.replicas()[which]);
      if (replicas > devices) break;
      for (int end = first; end <= last; ++end) {
        const SearchCost* stage = cost(which, begin, end, stages);
        if (stage == nullptr || stage->tau + sums(stages - 1, end)[devices - replicas] != sum) continue;
        load = std::max(load, stage->load);
        return {.end = end, .replicas = table_.replicas()[which]};
      }
    }
    return {};  // unreachable: the sum came from one of the choices
  }

  const StageTable& table_;
  const SearchSetting setting_;
  int max_stages_;
  size_t row_;
  double bound_ = 0;
  std::vector<int> last_ends_;  // by number of replicas and begin
  std::vector<double> sums_;    // by stages, first block, devices
};

void choose_recomputation(Candidate& candidate, const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options) {
  int begin = 0;
  auto to_end = static_cast<int>(candidate.stages.size());
  for (StageChoice& stage : candidate.stages) {
    const int held = candidate.setting.in_flight(to_end--);
    const auto found = fastest_recompute(costs, begin, stage.end, stage.replicas, held, candidate.setting, cluster, options);
    if (found) stage.recompute = found->second;
    begin = stage.end;
  }
}

}  // namespace

std::vector<Candidate> search_stages(const BlockCostTable& costs, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options,
                                     double good_enough) {
  const StageTable table(costs, setting, cluster, options, good_enough);
  StageDynamics dynamics(table, setting);
  std::vector<Candidate> candidates;
  // Costs of the last candidate, by number of stages. While its load is within the bound and no sum is smaller, it remains the best for this number
  // of stages.
  std::vector<SearchCost> known(static_cast<size_t>(dynamics.max_stages()) + 1, {-1, 0});
  double best = infinity;
  const double gap = setting.balance > 0 ? 0 : options.gap;  // plans of different balance differ by less than the gap
  for (double bound = good_enough; bound >= 0;) {
    dynamics.solve(bound);
    double least = infinity;
    double load_of_least = 0;
    for (int stages = setting.min_stages; stages <= dynamics.max_stages(); ++stages) {
      const double sum = dynamics.sum_of(stages);
      if (!std::isfinite(sum)) continue;
      auto& [known_sum, known_load] = known[static_cast<size_t>(stages)];
      if (sum != known_sum || known_load > bound) {
        Candidate candidate{.setting = setting};
        candidate.stages = dynamics.trace(stages, known_load);
        known_sum = sum;
        candidate.objective = sum + known_load;
        best = std::min(best, candidate.objective);
        choose_recomputation(candidate, costs, cluster, options);
        candidates.push_back(std::move(candidate));
      }
      if (sum < least) {
        least = sum;
        load_of_least = known_load;
      }
    }
    if (!std::isfinite(least)) break;
    // A better plan has a sum at least as large, so its load must be smaller than this one's, and its objective below the best one.
    const double below = std::nextafter(load_of_least, -1.0);
    bound = std::min({below, load_of_least * (1 - gap), std::min(best, good_enough) * (1 - gap) - least});
  }
  return candidates;
}

}  // namespace tw::pipeline
