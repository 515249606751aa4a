// SPDX-License-Identifier: Apache-2.0
// data/idx_gzip:    reading Fashion-MNIST's training images (gzip IDX), against inflating the same file with zlib.
// data/loader:      the time that a LeNet step of 64 images spends in Loader::next(), against the whole step; target: ratio above 100.
//                   (`waited_share` is the share of the step in which next() slept or made batches itself, as it reports.)
// data/loader_step: a LeNet step with a loader, against one whose data is ready: the total cost of making batches, including the time that
//                   the worker takes from the computing cores.
#include "measure.hpp"

#include <torch/torch.h>
#include <zlib.h>

#include <filesystem>
#include <numeric>
#include <tw/data.hpp>
#include <tw/models/lenet.hpp>
#include <tw/mpi/environment.hpp>

namespace {

const std::filesystem::path directory = "/usr/share/datasets/fashion-mnist";
constexpr int64_t batch_size = 64;

void compare_idx(const tw::benchmark::Contest& contest) {
  const auto path = directory / "train-images-idx3-ubyte.gz";
  std::vector<char> buffer(1U << 18);  // reused, so that zlib's time includes no other allocation
  tw::benchmark::Case of{.benchmark = "data/idx_gzip", .name = "fashion_mnist", .baseline = "zlib", .steps = 1};
  if (contest.is_ours()) {
    of.step = [&] { (void)tw::read_idx(path); };
  } else {
    of.step = [&] {
      gzFile file = gzopen(path.c_str(), "rb");
      gzbuffer(file, 1U << 18);
      while (gzread(file, buffer.data(), static_cast<unsigned>(buffer.size())) > 0) {
      }
      gzclose_r(file);
    };
  }
  tw::benchmark::compare(contest, of);
}

/// A LeNet and its optimizer.
class Trainee {
 public:
  void step(const tw::Batch& batch) {
    sgd_.zero_grad();
    torch::cross_entropy_loss(net_->forward(batch.inputs), batch.targets).backward();
    sgd_.step();
  }

 private:
  tw::models::LeNet net_;
  torch::optim::SGD sgd_{net_->parameters(), torch::optim::SGDOptions(1e-3)};
};

/// An endless sequence of batches, epoch after epoch.
class Stream {
 public:
  Stream(const tw::Dataset& dataset, const tw::LoaderOptions& options)
      : loader_(dataset, tw::DistributedSampler(static_cast<size_t>(dataset.size()), 1, 0), options) {
    loader_.begin_epoch(0);
  }

  tw::Batch next() {
    for (;;) {
      if (auto batch = loader_.next()) return std::move(*batch);
      loader_.begin_epoch(++epoch_);
    }
  }
  tw::Seconds waited() const { return loader_.waited(); }

 private:
  tw::Loader loader_;
  int64_t epoch_ = 0;
};

struct LoaderCase {
  std::string name;
  tw::LoaderOptions options;
};

std::vector<LoaderCase> loader_cases() {
  const auto augmentation = tw::compose({tw::random_shift(2), tw::random_horizontal_flip()});
  return {{"workers_1", {.global_batch = batch_size, .workers = 1}},
          {"workers_0", {.global_batch = batch_size, .workers = 0}},
          {"workers_1_augmented", {.global_batch = batch_size, .workers = 1, .augmentation = augmentation}}};
}

// Both times belong to the same steps, so there are no turns: the world's first rank works, the other sleeps.
void measure_waiting(const tw::benchmark::Contest& contest, const tw::Dataset& dataset, const LoaderCase& of) {
  constexpr int rounds = 20;
  constexpr int steps = 20;
  if (contest.world().rank() == 0) {
    Stream stream(dataset, of.options);
    Trainee trainee;
    std::vector<double> step_ms;
    std::vector<double> next_ms;
    tw::Seconds waited{0};
    tw::Seconds all{0};
    for (int round = -3; round < rounds; ++round) {
      const tw::Seconds before = stream.waited();
      tw::Seconds in_next{0};
      const tw::Stopwatch watch;
      for (int i = 0; i < steps; ++i) {
        const tw::Stopwatch asking;
        const tw::Batch batch = stream.next();
        in_next += asking.elapsed();
        trainee.step(batch);
      }
      if (round < 0) continue;
      const tw::Seconds passed = watch.elapsed();
      all += passed;
      waited += stream.waited() - before;
      next_ms.push_back(1e3 * in_next.count() / steps);
      step_ms.push_back(1e3 * passed.count() / steps);
    }
    const double step = tw::benchmark::percentile(step_ms, 0.5);
    const double next = std::accumulate(next_ms.begin(), next_ms.end(), 0.0) / rounds;  // the mean, so that a rare long wait counts
    std::cout << nlohmann::ordered_json{{"benchmark", "data/loader"},
                                        {"case", of.name},
                                        {"ranks", 1},
                                        {"baseline", "lenet_step"},
                                        {"baseline_ms", step},
                                        {"ours_ms", next},
                                        {"ratio", step / next},
                                        {"rounds", rounds},
                                        {"spread", (tw::benchmark::percentile(next_ms, 0.9) - tw::benchmark::percentile(next_ms, 0.1)) / next},
                                        {"waited_share", waited / all}}
              << std::endl;
  }
  tw::benchmark::sleeping_barrier(contest.world());
}

void compare_step(const tw::benchmark::Contest& contest, const tw::Dataset& dataset, const LoaderCase& of) {
  Stream stream(dataset, of.options);
  Trainee trainee;
  const tw::Batch ready = stream.next();
  tw::benchmark::Case turn{.benchmark = "data/loader_step", .name = of.name, .baseline = "lenet_step", .steps = 20};
  turn.step = [&] { trainee.step(contest.is_ours() ? stream.next() : ready); };
  tw::benchmark::compare(contest, turn);
}

void measure_all(const tw::benchmark::Contest& contest) {
  compare_idx(contest);
  const tw::ImageDataset dataset = tw::load_mnist(directory, tw::Split::train);
  for (const auto& of : loader_cases()) measure_waiting(contest, dataset, of);
  for (const auto& of : loader_cases()) compare_step(contest, dataset, of);
}

}  // namespace

int main(int argc, char** argv) { return tw::benchmark::run(argc, argv, measure_all); }
