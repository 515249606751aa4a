// SPDX-License-Identifier: Apache-2.0
// sharded/step: a training step with sharded parameters, gradients and optimizer state, against the same with full copies on each rank, on two ranks.
// Parameters are gathered unit by unit, or kept in one copy per node. Three contestants: 6 ranks.
#include "measure.hpp"
#include "trainees.hpp"

#include <optional>
#include <tw/data_parallel.hpp>

namespace {

using tw::benchmark::Trainee;

enum Contestant { data, gathered, one_copy, count };

class Turn {
 public:
  Turn(const tw::benchmark::Contest& contest, Trainee trainee) : trainee_(std::move(trainee)) {
    const tw::Communicator& comm = contest.comm();
    if (contest.contestant() == data) {
      parallel_.emplace(comm, trainee_.module(), tw::DataParallelOptions{.reduction = tw::Reduction::mean});
      optimizer_ = std::make_unique<torch::optim::Adam>(trainee_.module().parameters(), 1e-4);
    } else {
      sharded_.emplace(comm, trainee_.module(),
                       tw::FullyShardedOptions{.reduction = tw::Reduction::mean, .one_copy_per_node = contest.contestant() == one_copy});
      optimizer_ = std::make_unique<torch::optim::Adam>(sharded_->slices(), 1e-4);
    }
  }
  void operator()() {
    optimizer_->zero_grad();
    trainee_.backward();
    optimizer_->step();
  }

 private:
  Trainee trainee_;
  std::optional<tw::DataParallel> parallel_;
  std::optional<tw::FullySharded> sharded_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

void compare_step(const tw::benchmark::Contest& contest, const std::string& name, int steps, const std::function<Trainee()>& make) {
  Turn turn(contest, make());
  tw::benchmark::Case of{.benchmark = "sharded/step", .name = name, .baseline = "data", .steps = steps};
  of.step = [&] { turn(); };
  const auto times = tw::benchmark::take_turns(contest, of);
  tw::benchmark::print(contest, of, times[data], times[gathered]);
  of.name += "_one_copy";
  tw::benchmark::print(contest, of, times[data], times[one_copy]);
}

void measure_all(const tw::benchmark::Contest& contest) {
  compare_step(contest, "mlp_16", 200, [] { return tw::benchmark::make_mlp({16, 16, 16, 10}, 32); });
  for (const auto& [name, steps, make] : tw::benchmark::trainees()) compare_step(contest, name, steps, make);
  const auto gpt = tw::benchmark::trainee("gpt_12");
  compare_step(contest, gpt.name, gpt.steps, gpt.make);
}

}  // namespace

int main(int argc, char** argv) { return tw::benchmark::run(argc, argv, measure_all, count); }
