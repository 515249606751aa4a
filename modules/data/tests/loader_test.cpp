// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>
#include <tw/data.hpp>
#include <tw/data/torch_data.hpp>

namespace loader_test {

using Indices = std::vector<int64_t>;

// Sample i is [i, i] with target i.
tw::TensorDataset count_to(int64_t n) { return {torch::arange(n).to(torch::kFloat).reshape({n, 1}).repeat({1, 2}), torch::arange(n)}; }

tw::Loader make_loader(const tw::Dataset& dataset, int size, int rank, tw::LoaderOptions options) {
  return {dataset, tw::DistributedSampler(static_cast<size_t>(dataset.size()), size, rank, {.seed = 4}), std::move(options)};
}

std::vector<at::Tensor> drain(tw::Loader& loader) {
  std::vector<at::Tensor> batches;
  while (const auto batch = loader.next()) batches.push_back(torch::cat({batch->inputs, batch->targets.unsqueeze(1).to(torch::kFloat)}, 1));
  EXPECT_EQ(loader.next(), std::nullopt);
  return batches;
}

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}

// Adds a random number.
at::Tensor noise(const at::Tensor& sample, tw::CounterRng& random) { return sample + static_cast<double>(random.below(1000)); }

TEST(Loader, OrderAndContentDoNotDependOnTheWorkers) {
  const auto dataset = count_to(53);
  auto alone = make_loader(dataset, 3, 1, {.global_batch = 8, .workers = 0, .augmentation = noise, .seed = 6});
  std::vector<std::vector<at::Tensor>> expected;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    alone.begin_epoch(epoch);
    expected.push_back(drain(alone));
  }
  EXPECT_EQ(expected[0].size(), 7U);
  EXPECT_FALSE(equal(expected[0], expected[1]));
  for (const int workers : {1, 2, 5}) {
    for (const int prefetch : {1, 2, 9}) {
      auto loader = make_loader(dataset, 3, 1, {.global_batch = 8, .workers = workers, .prefetch = prefetch, .augmentation = noise, .seed = 6});
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        loader.begin_epoch(epoch);
        EXPECT_TRUE(equal(drain(loader), expected[static_cast<size_t>(epoch)])) << workers << " workers, " << prefetch << " ahead";
      }
    }
  }
}

TEST(Loader, GivesEverySampleOnceInEquallyManyBatchesOnAllRanks) {
  for (const int64_t samples : {0, 1, 2, 7, 20}) {
    for (const int size : {1, 2, 3, 5}) {
      for (const int64_t global_batch : {1, 4, 7, 100}) {
        const auto dataset = count_to(samples);
        Indices seen;
        for (int rank = 0; rank < size; ++rank) {
          auto loader = make_loader(dataset, size, rank, {.global_batch = global_batch, .workers = 2});
          EXPECT_EQ(loader.steps(), (samples + global_batch - 1) / global_batch);
          loader.begin_epoch(5);
          int64_t steps = 0;
          while (const auto batch = loader.next()) {
            ++steps;
            EXPECT_EQ(loader.consumed(), std::min(samples, steps * global_batch));
            EXPECT_EQ(batch->inputs.size(0), batch->targets.size(0));
            const int64_t* targets = batch->targets.data_ptr<int64_t>();
            seen.insert(seen.end(), targets, targets + batch->size());
          }
          EXPECT_EQ(steps, loader.steps());
        }
        std::sort(seen.begin(), seen.end());
        Indices all(static_cast<size_t>(samples));
        std::iota(all.begin(), all.end(), int64_t{0});
        EXPECT_EQ(seen, all) << samples << " samples on " << size << " ranks";
      }
    }
  }
}

TEST(Loader, GoesOnWhereAnotherStopped) {
  const auto dataset = count_to(40);
  for (const int workers : {0, 2}) {
    auto loader = make_loader(dataset, 2, 0, {.global_batch = 6, .workers = workers, .augmentation = noise});
    loader.begin_epoch(1);
    (void)loader.next();
    (void)loader.next();
    EXPECT_EQ(loader.consumed(), 12);  // regardless of batches that are ready after it
    auto other = make_loader(dataset, 2, 0, {.global_batch = 6, .workers = workers, .augmentation = noise});
    other.begin_epoch(0);  // abandons an epoch midway
    (void)other.next();
    other.begin_epoch(1, loader.consumed());
    EXPECT_EQ(other.consumed(), 12);
    EXPECT_TRUE(equal(drain(other), drain(loader)));
  }
}

// Augmentation of a sample does not depend on which rank has it: one rank gives the same as three.
TEST(Loader, AugmentationDependsOnSeedEpochAndSampleAlone) {
  const auto dataset = count_to(12);
  const auto collect = [&](int size, int workers, int64_t epoch, uint64_t seed) {
    std::vector<float> values(12);
    for (int rank = 0; rank < size; ++rank) {
      auto loader = make_loader(dataset, size, rank, {.global_batch = 5, .workers = workers, .augmentation = noise, .seed = seed});
      loader.begin_epoch(epoch);
      for (const auto& batch : drain(loader)) {
        for (int64_t i = 0; i < batch.size(0); ++i) values[static_cast<size_t>(batch[i][2].item<int64_t>())] = batch[i][0].item<float>();
      }
    }
    return values;
  };
  const auto expected = collect(1, 0, 2, 9);
  EXPECT_EQ(collect(3, 2, 2, 9), expected);
  EXPECT_NE(collect(1, 0, 3, 9), expected);
  EXPECT_NE(collect(1, 0, 2, 8), expected);
}

class Failing : public tw::Dataset {
 public:
  int64_t size() const override { return 12; }
  tw::Batch batch(std::span<const int64_t> indices) const override {
    if (std::find(indices.begin(), indices.end(), 6) != indices.end()) throw tw::Error("sample 6 is broken");
    return {torch::zeros({static_cast<int64_t>(indices.size())}), torch::zeros({static_cast<int64_t>(indices.size())})};
  }
};

TEST(Loader, AnExceptionComesOutAtItsBatch) {
  const Failing dataset;
  for (const int workers : {0, 1, 3}) {
    tw::Loader loader(dataset, tw::DistributedSampler(12, 1, 0, {.shuffle = false}), {.global_batch = 3, .workers = workers, .prefetch = 4});
    EXPECT_THROW((void)loader.next(), tw::ContractError);  // no epoch begun
    loader.begin_epoch(0);
    EXPECT_TRUE(loader.next().has_value());
    EXPECT_TRUE(loader.next().has_value());
    EXPECT_THROW((void)loader.next(), tw::Error);
    EXPECT_THROW((void)loader.next(), tw::Error);  // errors persist: no batch is silently skipped
    EXPECT_EQ(loader.consumed(), 6);
    loader.begin_epoch(0, 9);
    EXPECT_TRUE(loader.next().has_value());
    EXPECT_EQ(loader.next(), std::nullopt);
  }
}

// Makes batches only while its gate is open.
class Gated : public tw::Dataset {
 public:
  int64_t size() const override { return 100; }
  tw::Batch batch(std::span<const int64_t> indices) const override {
    std::unique_lock lock(mutex_);
    threads_ = std::max(threads_, at::get_num_threads());
    ++asked_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    const auto targets = torch::tensor(Indices(indices.begin(), indices.end()));
    return {targets.reshape({-1, 1}).to(torch::kFloat), targets};
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void expect_asked(int64_t batches) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return asked_ >= batches; });
    EXPECT_EQ(asked_, batches);
  }
  int threads() const { return threads_; }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int64_t asked_ = 0;
  mutable int threads_ = 0;
  bool open_ = false;
};

TEST(Loader, MakesNoMoreAheadThanAskedAndEachWorkerKeepsToOneThread) {
  at::set_num_threads(2);
  for (const auto& [workers, prefetch, asked] : std::vector<std::array<int, 3>>{{1, 4, 1}, {3, 2, 2}, {2, 5, 2}}) {
    Gated dataset;
    auto loader = make_loader(dataset, 1, 0, {.global_batch = 4, .workers = workers, .prefetch = prefetch});
    EXPECT_EQ(at::get_num_threads(), 2);
    loader.begin_epoch(0);
    dataset.expect_asked(asked);  // and waits at the gate
    dataset.open();
    EXPECT_EQ(drain(loader).size(), 25U);
    EXPECT_EQ(dataset.threads(), 1);
  }
  at::set_num_threads(1);
}

TEST(Loader, DropsWhatIsInTheMakingWhenAnEpochIsBegun) {
  Gated dataset;
  auto loader = make_loader(dataset, 1, 0, {.global_batch = 4, .workers = 2, .prefetch = 3});
  loader.begin_epoch(0);
  dataset.expect_asked(2);
  loader.begin_epoch(1);
  dataset.open();
  auto alone = make_loader(dataset, 1, 0, {.global_batch = 4, .workers = 0});
  alone.begin_epoch(1);
  EXPECT_TRUE(equal(drain(loader), drain(alone)));
}

// Takes 2 ms per batch.
class Slow : public tw::Dataset {
 public:
  int64_t size() const override { return 100; }
  tw::Batch batch(std::span<const int64_t> indices) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return {torch::zeros({static_cast<int64_t>(indices.size()), 1}), torch::zeros({static_cast<int64_t>(indices.size())})};
  }
};

TEST(Loader, MeasuresWhatItWaits) {
  const Slow dataset;
  for (const int workers : {0, 1}) {
    auto loader = make_loader(dataset, 1, 0, {.global_batch = 4, .workers = workers});
    EXPECT_EQ(loader.waited().count(), 0.0);
    const tw::Stopwatch watch;
    loader.begin_epoch(0);
    EXPECT_EQ(drain(loader).size(), 25U);
    // Nearly all of the 25 batches of 2 ms are waited for, except for time between calls of next() and while others use the core.
    EXPECT_GT(loader.waited().count(), workers == 0 ? 0.050 : 0.002);
    EXPECT_LE(loader.waited(), watch.elapsed());
  }
}

/// Returns views of its own memory.
class Views : public tw::Dataset {
 public:
  explicit Views(const at::Tensor& inputs) : inputs_(inputs) {}
  int64_t size() const override { return inputs_.size(0); }
  tw::Batch batch(std::span<const int64_t> indices) const override {
    EXPECT_EQ(static_cast<int64_t>(indices.size()), size());
    return {inputs_, torch::arange(size())};
  }

 private:
  at::Tensor inputs_;
};

TEST(Loader, AugmentationLeavesTheDataSetAsItIs) {
  const at::Tensor stored = torch::rand({12, 3});
  const at::Tensor before = stored.clone();
  const Views dataset(stored);
  const tw::Augmentation in_place = [](const at::Tensor& sample, tw::CounterRng&) { return at::Tensor(sample).add_(1); };  // violates the contract
  for (const tw::Augmentation& augmentation : {tw::Augmentation(noise), in_place}) {
    for (const int workers : {0, 2}) {
      auto loader = make_loader(dataset, 1, 0, {.global_batch = 12, .workers = workers, .augmentation = augmentation});
      loader.begin_epoch(0);
      const auto batch = loader.next();
      ASSERT_TRUE(batch.has_value());
      EXPECT_FALSE(batch->inputs.equal(before));
      EXPECT_TRUE(stored.equal(before));
    }
  }
}

TEST(Loader, NamesWhatIsWrongWithItsOptions) {
  const auto dataset = count_to(3);
  EXPECT_THROW(make_loader(dataset, 1, 0, {.global_batch = 0}), tw::ContractError);
  EXPECT_THROW(make_loader(dataset, 1, 0, {.workers = -1}), tw::ContractError);
  EXPECT_THROW(make_loader(dataset, 1, 0, {.prefetch = 0}), tw::ContractError);
  for (const auto uneven : {tw::Uneven::drop, tw::Uneven::pad}) {
    const tw::DistributedSampler sampler(3, 2, 0, {.uneven = uneven});
    for (const int workers : {0, 1}) EXPECT_THROW(tw::Loader(dataset, sampler, {.global_batch = 5, .workers = workers}), tw::ContractError);
  }
  auto loader = make_loader(dataset, 1, 0, {.augmentation = [](const at::Tensor& sample, tw::CounterRng&) { return sample.slice(0, 1); }});
  loader.begin_epoch(0);
  EXPECT_THROW((void)loader.next(), tw::ContractError);
}

TEST(Augmentation, ShiftsFlipsAndComposes) {
  const auto image = torch::arange(1.0, 13.0).reshape({1, 3, 4});
  std::set<std::pair<int64_t, int64_t>> seen;
  for (uint64_t stream = 0; stream < 400; ++stream) {
    tw::CounterRng random(1, stream);
    const auto moved = tw::random_shift(2, 0.0)(image, random);
    bool found = false;
    for (int64_t down = -2; down <= 2 && !found; ++down) {
      for (int64_t across = -2; across <= 2 && !found; ++across) {
        const auto padded = torch::constant_pad_nd(image, {2, 2, 2, 2});  // brute force: a window of the padded image
        found = moved.equal(padded.slice(1, 2 - down, 5 - down).slice(2, 2 - across, 6 - across));
        if (found) seen.insert({down, across});
      }
    }
    EXPECT_TRUE(found) << moved;
  }
  EXPECT_EQ(seen.size(), 25U);  // 400 draws miss one of 25 with probability 25 (24/25)^400 = 2e-6, and the draws are fixed

  int flipped = 0;
  for (uint64_t stream = 0; stream < 400; ++stream) {
    tw::CounterRng random(2, stream);
    const auto result = tw::random_horizontal_flip()(image, random);
    EXPECT_TRUE(result.equal(image) || result.equal(image.flip({2})));
    flipped += result.equal(image) ? 0 : 1;
  }
  EXPECT_NEAR(flipped, 200, 50);  // five standard deviations of 10

  tw::CounterRng random(3);
  const auto twice = [](const at::Tensor& sample, tw::CounterRng&) { return sample * 2; };
  const auto more = [](const at::Tensor& sample, tw::CounterRng&) { return sample + 1; };
  EXPECT_TRUE(tw::compose({twice, more})(image, random).equal(image * 2 + 1));
  EXPECT_TRUE(tw::random_shift(9)(image.slice(1, 0, 0), random).equal(image.slice(1, 0, 0)));
  EXPECT_THROW(tw::random_shift(-1), tw::ContractError);
  EXPECT_THROW(tw::compose({nullptr}), tw::ContractError);
}

TEST(TorchData, LibTorchsLoaderTakesOurDataSets) {
  const auto dataset = count_to(10);
  Indices seen;
  for (int rank = 0; rank < 3; ++rank) {
    auto loader =
        torch::data::make_data_loader(tw::to_torch(dataset), tw::DistributedSampler(10, 3, rank), torch::data::DataLoaderOptions(2).workers(2));
    for (auto& batch : *loader) {
      EXPECT_TRUE(batch.data.slice(1, 0, 1).squeeze(1).equal(batch.target.to(torch::kFloat)));
      const int64_t* targets = batch.target.data_ptr<int64_t>();
      seen.insert(seen.end(), targets, targets + batch.target.numel());
    }
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (Indices{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

// LibTorch's loader resets its sampler when iteration begins. The epoch and the position to resume from must survive that.
TEST(TorchData, LibTorchsLoaderGoesOnWhereItsSamplerWasTold) {
  const auto dataset = count_to(31);
  for (const auto partitioning : {tw::Partitioning::interleaved, tw::Partitioning::blocks}) {
    for (int rank = 0; rank < 3; ++rank) {
      const tw::DistributedSampler fresh(31, 3, rank, {.seed = 5, .partitioning = partitioning});
      const auto epochs_of = [&](const tw::DistributedSampler& sampler, int epochs) {
        auto loader = torch::data::make_data_loader(tw::to_torch(dataset), sampler, torch::data::DataLoaderOptions(2));
        Indices seen;
        for (int epoch = 0; epoch < epochs; ++epoch) {
          for (auto& batch : *loader)
            seen.insert(seen.end(), batch.target.data_ptr<int64_t>(), batch.target.data_ptr<int64_t>() + batch.target.numel());
        }
        return seen;
      };
      auto undisturbed = fresh;
      Indices expected;
      for (const int64_t epoch : {2, 3}) {
        undisturbed.set_epoch(epoch);
        for (auto indices = undisturbed.next(2); indices; indices = undisturbed.next(2))
          expected.insert(expected.end(), indices->begin(), indices->end());
      }
      auto told = fresh;
      told.set_epoch(2);
      EXPECT_EQ(epochs_of(told, 2), expected) << "rank " << rank;
      told.resume(2, 12, 3);
      EXPECT_EQ(epochs_of(told, 2), Indices(expected.begin() + 4, expected.end())) << "rank " << rank;
      (void)told.next(2);  // dealt elsewhere: the loader then uses the next epoch
      EXPECT_EQ(epochs_of(told, 1), Indices(expected.end() - static_cast<int64_t>(told.samples_here()), expected.end())) << "rank " << rank;
    }
  }
}

TEST(TorchData, OurLoaderTakesLibTorchsDataSets) {
  const auto check = [](const tw::Dataset& dataset) {
    EXPECT_EQ(dataset.size(), 10);
    const auto batch = dataset.batch(Indices{3, 1});
    EXPECT_TRUE(batch.inputs.equal(torch::tensor({3.0F, 1.0F}).reshape({2, 1})));
    EXPECT_TRUE(batch.targets.equal(torch::tensor({6.0F, 2.0F})));
    EXPECT_EQ(dataset.batch({}).inputs.sizes(), (Indices{0, 1}));
    EXPECT_THROW((void)dataset.batch(Indices{10}), tw::ContractError);
  };
  const auto pairs = torch::data::datasets::TensorDataset(torch::arange(10.0))
                         .map(torch::data::transforms::Lambda<torch::data::TensorExample, torch::data::Example<>>(
                             [](torch::data::TensorExample example) { return torch::data::Example<>(example.data.reshape({1}), example.data * 2); }));
  check(tw::from_torch(pairs));
  auto copy = pairs;
  check(tw::from_torch(copy.map(torch::data::transforms::Stack<>())));
}

}  // namespace loader_test
