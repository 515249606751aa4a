// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/promotion.hpp>
#include <tw/mpi/collectives.hpp>
#include <utility>

#include "trial_scheduler.hpp"

namespace tw::search {
namespace {

/// Pauses trials at rungs, and resumes promoted ones, each on its own worker, before new trials begin.
class HalvingPromotion final : public TrialScheduler {
 public:
  HalvingPromotion(const PromotionOptions& options, const SchedulerContext& worker) : worker_(worker), promotion_(options) {}

  Verdict decide(const Report& report) override { return promotion_.arrive(report) ? Verdict::pause : TrialScheduler::decide(report); }
  void observe(const Report& report, int /*worker*/) override { promotion_.observe(report); }

  std::optional<int64_t> next() override {
    promote();
    return std::exchange(promoted_, std::nullopt);
  }

  bool anyone_resumes(const Communicator& workers, const bool& is_over) override {
    worker_.post.settle();
    if (!is_over) promote();
    int64_t resumes = !is_over && promoted_ ? 1 : 0;
    mpi::allreduce(workers, {&resumes, 1, ElementType::int64}, ReduceOp::max);
    return resumes != 0;
  }

 private:
  void promote() {
    while (!promoted_) {
      const int64_t trial = promotion_.next().trial;
      if (trial < 0) return;
      if (worker_.trials.paused.contains(trial)) promoted_ = trial;  // otherwise it failed before it paused
    }
  }

  const SchedulerContext worker_;
  Promotion promotion_;
  std::optional<int64_t> promoted_;  // the paused trial to resume next
};

}  // namespace

std::unique_ptr<TrialScheduler> halving_promotion(const PromotionOptions& options, const SchedulerContext& worker) {
  return std::make_unique<HalvingPromotion>(options, worker);
}

}  // namespace tw::search
