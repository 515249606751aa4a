// SPDX-License-Identifier: Apache-2.0
// bench_slow_network TRAINEE RATE: a training step (trainees.hpp) whose gradients are reduced plainly, compressed, or rarely, across a network. Made
// for several hosts (tests/cluster/hosts.sh). `allowed` is the speed-up that the number of bytes allows: with computation time c and plain
// communication time t, (c + t) / (c + t bytes / plain bytes).
#include "measure.hpp"
#include "trainees.hpp"

#include <optional>
#include <tw/data_parallel.hpp>

namespace {

using tw::benchmark::Trainee;

struct Mode {
  std::string name;
  tw::DataParallelOptions options = {.reduction = tw::Reduction::mean};
  int64_t period = 0;  ///< period of DiLoCo; 0: gradients are reduced in every step
  bool alone = false;  ///< computation only
};

std::vector<Mode> modes() {
  const auto compressed = [](std::shared_ptr<tw::Compressor> compressor) {
    return tw::DataParallelOptions{.reduction = tw::Reduction::mean, .compressor = std::move(compressor)};
  };
  return {{.name = "alone", .alone = true},
          {.name = "plain"},
          {.name = "float16", .options = compressed(tw::half_compression(tw::HalfPrecision::float16))},
          {.name = "top_k_1_percent", .options = compressed(tw::top_k_compression())},
          {.name = "power_sgd_rank_4", .options = compressed(tw::power_sgd_compression({.rank = 4}))},
          {.name = "diloco_50", .period = 50}};
}

/// One mode of training, with its network and its measurements.
class Contestant {
 public:
  Contestant(const tw::Communicator& comm, Mode mode, Trainee trainee) : comm_(comm), mode_(std::move(mode)), trainee_(std::move(trainee)) {
    if (mode_.period > 0) {
      outer_.emplace(comm_, trainee_.module(), tw::DiLoCoOptions{.period = mode_.period});
    } else if (!mode_.alone) {
      parallel_.emplace(comm_, trainee_.module(), mode_.options);
    }
  }

  /// One round: a whole period, or a few steps.
  void round(bool counts) {
    const int64_t steps = mode_.period > 0 ? mode_.period : 4;
    const int64_t bytes = this->bytes();
    comm_.barrier();
    const tw::Stopwatch watch;
    for (int64_t i = 0; i < steps; ++i) {
      trainee_.step();
      if (outer_) outer_->step();
    }
    comm_.barrier();
    if (counts) ms.push_back(1e3 * watch.elapsed().count() / static_cast<double>(steps));
    bytes_per_step = static_cast<double>(this->bytes() - bytes) / static_cast<double>(steps);
  }
  const std::string& name() const { return mode_.name; }

  std::vector<double> ms;  // ms per step, by round
  double bytes_per_step = 0;

 private:
  int64_t bytes() const { return outer_ ? outer_->bytes_communicated() : parallel_ ? parallel_->reducer().payload_bytes() : 0; }

  const tw::Communicator& comm_;
  Mode mode_;
  Trainee trainee_;
  std::optional<tw::DataParallel> parallel_;
  std::optional<tw::DiLoCo> outer_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "lenet";
  const std::string rate = argc > 2 ? argv[2] : "link";
  const tw::Environment mpi(argc, argv);
  const tw::Communicator comm = mpi.world().dup();
  torch::set_num_threads(1);
  const auto make_trainee = tw::benchmark::trainee(name).make;
  std::vector<std::unique_ptr<Contestant>> contestants;
  for (Mode& mode : modes()) contestants.push_back(std::make_unique<Contestant>(comm, std::move(mode), make_trainee()));
  constexpr int rounds = 10;
  for (int round = -2; round < rounds; ++round) {
    for (const auto& contestant : contestants) contestant->round(round >= 0);
  }
  if (comm.rank() != 0) return 0;
  using tw::benchmark::percentile;
  const double computing = percentile(contestants[0]->ms, 0.5);
  const double plain_ms = percentile(contestants[1]->ms, 0.5);
  for (size_t i = 2; i < contestants.size(); ++i) {
    const Contestant& mine = *contestants[i];
    const double ms = percentile(mine.ms, 0.5);
    const double share = mine.bytes_per_step / contestants[1]->bytes_per_step;
    std::cout << nlohmann::ordered_json{{"benchmark", "data_parallel/slow_network"},
                                        {"case", tw::concat(name, '/', rate, '/', mine.name())},
                                        {"ranks", comm.size()},
                                        {"baseline", "plain"},
                                        {"baseline_ms", plain_ms},
                                        {"ours_ms", ms},
                                        {"ratio", plain_ms / ms},
                                        {"allowed", plain_ms / (computing + (plain_ms - computing) * share)},
                                        {"bytes_per_step", mine.bytes_per_step},
                                        {"plain_bytes_per_step", contestants[1]->bytes_per_step},
                                        {"computing_ms", computing},
                                        {"rounds", rounds},
                                        {"spread", (percentile(mine.ms, 0.9) - percentile(mine.ms, 0.1)) / ms}}
              << std::endl;
  }
}
