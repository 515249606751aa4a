// SPDX-License-Identifier: Apache-2.0
// The Reducer alone, without autograd. Gradients are small integers and rank counts small, so that sums are exact; means are compared to a few units
// in the last place of the division.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <tw/gradients.hpp>

namespace reducer_test {

using tw::testing::world;

const std::vector<tw::TensorSpec> specs{
    {"a", {3, 4}, at::kFloat}, {"b", {1000}, at::kDouble}, {"c", {}, at::kFloat}, {"d", {70000}, at::kFloat}, {"e", {0}, at::kFloat}};

at::Tensor value_of(size_t id, int rank) { return torch::full(specs[id].shape, static_cast<double>(id + 1) * (rank + 1), specs[id].dtype); }

/// With and without overlap, and with buckets small enough to have several.
std::vector<tw::ReducerOptions> variants(tw::Reduction reduction) {
  const tw::BucketOptions small{.first_bucket_bytes = 256, .bucket_bytes = 65536};
  return {{.reduction = reduction, .overlap = false},
          {.reduction = reduction, .overlap = true},
          {.reduction = reduction, .buckets = small, .overlap = true},
          {.reduction = reduction, .buckets = small, .overlap = false}};
}

int64_t samples_of(int rank) { return rank == 1 ? 0 : 5 + 3 * rank; }

double expected_factor(tw::Reduction reduction) {
  double sum = 0;
  double samples = 0;
  for (int rank = 0; rank < world().size(); ++rank) {
    const double weight = reduction == tw::Reduction::sample_weighted ? static_cast<double>(samples_of(rank)) : 1;
    sum += weight * (rank + 1);
    samples += weight;
  }
  return reduction == tw::Reduction::sum ? sum : sum / samples;
}

TEST(Reducer, ReducesInAnyOrderOfArrival) {
  for (const auto reduction : {tw::Reduction::sum, tw::Reduction::mean, tw::Reduction::sample_weighted}) {
    for (const auto& options : variants(reduction)) {
      tw::Reducer reducer(world(), specs, options);
      for (int step = 0; step < 3; ++step) {
        reducer.begin(samples_of(world().rank()));
        for (size_t i = 0; i < specs.size(); ++i) {
          const size_t id = (i * 2 + static_cast<size_t>(world().rank() + step)) % specs.size();  // a different order on every rank; 2 and 5 are
                                                                                                  // coprime
          reducer.mark_ready(static_cast<int64_t>(id), value_of(id, world().rank()));
        }
        reducer.wait();
        for (size_t id = 0; id < specs.size(); ++id) {
          const at::Tensor& gradient = reducer.gradient(static_cast<int64_t>(id));
          const at::Tensor expected = torch::full(specs[id].shape, static_cast<double>(id + 1) * expected_factor(reduction), specs[id].dtype);
          // One rounding each for the weight, the product, at most 3 sums and the last product: 8 units of 1.2e-7.
          EXPECT_TRUE(torch::allclose(gradient, expected, 1e-6, 0)) << specs[id].name;
          EXPECT_TRUE(reducer.used(static_cast<int64_t>(id)));
        }
      }
    }
  }
}

TEST(Reducer, ReducesWhatIsAlreadyInPlace) {
  for (const auto& options : variants(tw::Reduction::mean)) {
    tw::Reducer reducer(world(), specs, options);
    reducer.begin();
    for (size_t id = 0; id < specs.size(); ++id) {
      const at::Tensor place = reducer.gradient(static_cast<int64_t>(id));
      place.copy_(value_of(id, world().rank()));
      reducer.mark_ready(static_cast<int64_t>(id), place);
    }
    reducer.wait();
    EXPECT_NEAR(reducer.gradient(2).item<double>(), 3 * expected_factor(tw::Reduction::mean), 1e-5);
  }
}

TEST(Reducer, CarriesVotesWithTheStep) {
  tw::Reducer reducer(world(), {{"w", {3}, at::kFloat}}, {.reduction = tw::Reduction::mean});
  for (int step = 0; step < 3; ++step) {
    reducer.begin();
    if (step == 1) reducer.vote(0);
    if (step == 1 && world().rank() == world().size() - 1) reducer.vote(1);
    reducer.mark_ready(0, torch::ones({3}));
    reducer.wait();
    EXPECT_EQ(reducer.votes(0), step == 1 ? world().size() : 0) << step;
    EXPECT_EQ(reducer.votes(1), step == 1 ? 1 : 0) << step;
  }
}

// One rank's fingerprint differs by little, by much, or not at all.
TEST(Reducer, ComparesMarks) {
  constexpr uint64_t mark = 0x123456789abcdef0;
  tw::Reducer reducer(world(), {{"w", {3}, at::kFloat}}, {.reduction = tw::Reduction::mean});
  for (const uint64_t difference : {0UL, 1UL, 1UL << 19U, 1UL << 20U, 1UL << 39U, 0UL}) {
    for (int other = 0; other < world().size(); ++other) {
      reducer.begin();
      reducer.set_step_fingerprint(world().rank() == other ? mark ^ difference : mark);
      reducer.mark_ready(0, torch::ones({3}));
      reducer.wait();
      EXPECT_EQ(reducer.fingerprints_agree(), difference == 0 || world().size() == 1) << difference << ' ' << other;
    }
  }
  reducer.begin();
  reducer.mark_ready(0, torch::ones({3}));
  reducer.wait();
  EXPECT_TRUE(reducer.fingerprints_agree()) << "marks of the step before";
}

TEST(Reducer, SeesWhatIsNotFinite) {
  const int last = world().size() - 1;
  for (const auto reduction : {tw::Reduction::sum, tw::Reduction::mean, tw::Reduction::sample_weighted}) {
    for (auto options : variants(reduction)) {
      options.check_finite = true;
      tw::Reducer reducer(world(), specs, options);
      for (const double bad : {1.0, std::numeric_limits<double>::quiet_NaN(), 2.0, -std::numeric_limits<double>::infinity()}) {
        reducer.begin(3);
        for (size_t id = 0; id < specs.size(); ++id) {
          const at::Tensor value = value_of(id, world().rank());
          if (id == 3 && world().rank() == last) value[69999].fill_(bad);
          reducer.mark_ready(static_cast<int64_t>(id), value);
        }
        reducer.wait();
        EXPECT_EQ(reducer.finite(), std::isfinite(bad)) << bad;
        EXPECT_NEAR(reducer.gradient(2).item<double>(), 3 * (reduction == tw::Reduction::sum ? (last + 1) * (last + 2) / 2.0 : (last + 2) / 2.0),
                    1e-5);
      }
    }
  }
}

TEST(Reducer, TellsWhenBucketsTravel) {
  for (auto options : variants(tw::Reduction::mean)) {
    std::vector<int64_t> buckets;
    const auto before = std::chrono::steady_clock::now();
    options.on_bucket = [&](int64_t bucket, auto begin, auto end) {
      EXPECT_LE(before, begin);
      EXPECT_LE(begin, end);
      buckets.push_back(bucket);
    };
    tw::Reducer reducer(world(), specs, options);
    reducer.begin();
    for (size_t id = 0; id < specs.size(); ++id) reducer.mark_ready(static_cast<int64_t>(id), value_of(id, world().rank()));
    reducer.wait();
    std::vector<int64_t> all(reducer.plan().buckets.size());
    std::iota(all.begin(), all.end(), int64_t{0});
    EXPECT_EQ(buckets, all);
  }
}

TEST(Reducer, KeepsItsMemoryAndTakesStridedValues) {
  tw::Reducer reducer(world(), {{"w", {3, 4}, at::kFloat}}, {.reduction = tw::Reduction::mean});
  const void* place = reducer.gradient(0).data_ptr();
  const at::Tensor strided = torch::arange(12, torch::kFloat).reshape({4, 3}).t();
  for (int step = 0; step < 2; ++step) {
    reducer.begin();
    reducer.mark_ready(0, strided);
    reducer.wait();
    EXPECT_EQ(reducer.gradient(0).data_ptr(), place);
    EXPECT_TRUE(torch::allclose(reducer.gradient(0), strided, 1e-6, 0));  // the mean of equal values: two roundings
  }
}

TEST(Reducer, UnusedCountsAsZeroAndIsKnownToAll) {
  for (const auto& options : variants(tw::Reduction::sum)) {
    tw::Reducer reducer(world(), specs, options);
    const bool first = world().rank() == 0;
    reducer.begin();
    for (size_t id = 0; id < specs.size(); ++id) {
      const bool used = id == 0 ? first : id != 1;  // a: rank 0 only; b: no rank
      if (used) {
        reducer.mark_ready(static_cast<int64_t>(id), value_of(id, world().rank()));
      } else {
        reducer.mark_unused(static_cast<int64_t>(id));
      }
    }
    reducer.wait();
    EXPECT_TRUE(reducer.used(0));
    EXPECT_FALSE(reducer.used(1));
    EXPECT_TRUE(reducer.used(2));
    EXPECT_TRUE(reducer.gradient(0).eq(1).all().item<bool>());
    EXPECT_TRUE(reducer.gradient(1).eq(0).all().item<bool>());
  }
}

/// All kinds of sharding, with and without overlap, with several buckets.
std::vector<tw::ReducerOptions> sharded_variants(tw::Reduction reduction) {
  std::vector<tw::ReducerOptions> all;
  for (const auto& options : variants(reduction)) {
    for (const auto sharding : {tw::Sharding::slices, tw::Sharding::tensors}) {
      for (const bool release : {false, true}) {
        for (const bool shared : {true, false}) {
          all.push_back(options);
          all.back().sharding = sharding;
          all.back().release = release;
          all.back().shared_memory = shared;
        }
      }
    }
  }
  return all;
}

TEST(Reducer, ShardsEveryElementToOneRank) {
  for (const auto reduction : {tw::Reduction::sum, tw::Reduction::sample_weighted}) {
    for (const auto& options : sharded_variants(reduction)) {
      tw::Reducer reducer(world(), specs, options);
      for (int step = 0; step < 3; ++step) {
        reducer.begin(samples_of(world().rank()));
        for (size_t id = 0; id < specs.size(); ++id) {
          const at::Tensor value = value_of(id, world().rank()) * torch::arange(specs[id].numel(), specs[id].dtype).reshape(specs[id].shape);
          reducer.mark_ready(static_cast<int64_t>(id), value);
        }
        reducer.wait();
        int64_t elements = 0;
        for (const tw::ShardPiece& piece : reducer.pieces()) {
          const auto id = static_cast<size_t>(piece.gradient);
          const at::Tensor share = reducer.shard(piece.bucket);
          const int64_t begin = piece.offset - (options.sharding == tw::Sharding::slices ? world().rank() * share.numel() : 0);
          const at::Tensor expected = torch::arange(piece.begin, piece.begin + piece.count, torch::dtype(specs[id].dtype)) *
                                      (static_cast<double>(id + 1) * expected_factor(reduction));
          EXPECT_TRUE(torch::allclose(share.narrow(0, begin, piece.count), expected, 1e-6, 0)) << id << " step " << step;
          elements += piece.count;
        }
        const at::Tensor total = torch::tensor({elements});
        tw::allreduce(world(), total, tw::ReduceOp::sum);
        EXPECT_EQ(total.item<int64_t>(), 12 + 1000 + 1 + 70000);
      }
    }
  }
}

TEST(Reducer, NoSamplesMakeNoNaN) {
  tw::Reducer reducer(world(), {{"w", {4}, at::kFloat}}, {.reduction = tw::Reduction::sample_weighted});
  const auto nan = torch::full({4}, std::numeric_limits<float>::quiet_NaN());
  reducer.begin(0);
  reducer.mark_ready(0, nan);
  reducer.wait();
  EXPECT_TRUE(reducer.gradient(0).eq(0).all().item<bool>());
}

TEST(Reducer, NamesMisuse) {
  tw::Reducer reducer(world(), specs, {.reduction = tw::Reduction::mean, .overlap = false});
  EXPECT_THROW(reducer.mark_ready(0, value_of(0, 0)), tw::ContractError);  // outside a step
  EXPECT_THROW(reducer.wait(), tw::ContractError);
  reducer.begin();
  EXPECT_THROW(tw::Reducer(world(), specs, {.reduction = tw::Reduction::mean}).end_failed_step(), tw::ContractError);
  EXPECT_THROW(reducer.mark_ready(0, torch::ones({5})), tw::ContractError);
  EXPECT_THROW(reducer.mark_ready(99, torch::ones({5})), tw::ContractError);
  reducer.mark_ready(0, value_of(0, 0));
  EXPECT_THROW(reducer.mark_ready(0, value_of(0, 0)), tw::ContractError);
  try {
    reducer.wait();
    ADD_FAILURE() << "no exception";
  } catch (const tw::ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("gradient b was not marked"), std::string::npos) << error.what();
  }
  for (int64_t id = 1; id < reducer.size(); ++id) reducer.mark_unused(id);
  reducer.wait();
  EXPECT_THROW(tw::Reducer(world(), {}, {.reduction = tw::Reduction::sum}), tw::ContractError);
  EXPECT_THROW(tw::Reducer(world(), {{"whole", {2}, at::kLong}}, {.reduction = tw::Reduction::sum}), tw::ContractError);
}

// One rank's step fails after its first gradient, whatever the order of buckets. The other ranks learn of it from wait(); all continue.
TEST(Reducer, GoesOnAfterAFailedStep) {
  auto all = variants(tw::Reduction::sum);
  for (auto& options : sharded_variants(tw::Reduction::sum)) all.push_back(options);
  for (const auto& options : all) {
    tw::Reducer reducer(world(), specs, options);
    for (int failing = 0; failing < world().size(); ++failing) {
      const bool fails = world().rank() == failing;
      reducer.begin();
      for (size_t id = 0; id < (fails ? 1 : specs.size()); ++id) reducer.mark_ready(static_cast<int64_t>(id), value_of(id, world().rank()));
      if (!fails) {
        const std::string message = tw::testing::message_of([&] { reducer.wait(); });
        EXPECT_NE(message.find("an exception ended this step on 1 of"), std::string::npos) << message;
      }
      EXPECT_EQ(reducer.in_step(), fails);
      reducer.begin();
      for (size_t id = 0; id < specs.size(); ++id) reducer.mark_ready(static_cast<int64_t>(id), value_of(id, world().rank()));
      reducer.wait();
      EXPECT_EQ(reducer.steps(), failing + 1) << "a failed step counts as none";
      if (options.sharding != tw::Sharding::none) continue;
      EXPECT_EQ(reducer.gradient(2).item<double>(), 3 * expected_factor(tw::Reduction::sum));
    }
  }
}

// The meta device stands for devices whose memory is not the host's.
TEST(Reducer, RefusesGradientsThatLieElsewhere) {
  for (const bool sparse : {false, true}) {
    tw::Reducer reducer(world(), {{"w", {3}, at::kFloat}},
                        {.reduction = tw::Reduction::sum, .sparse = sparse ? std::vector<std::string>{"w"} : std::vector<std::string>{}});
    reducer.begin();
    EXPECT_THROW(reducer.mark_ready(0, torch::ones({3}, torch::kMeta)), tw::ContractError);
    reducer.mark_ready(0, torch::ones({3}));
    reducer.wait();
    EXPECT_EQ(reducer.gradient(0).to_dense()[0].item<float>(), static_cast<float>(world().size()));
  }
}

TEST(Reducer, CountsTheTimeOfCommunication) {
  tw::Reducer reducer(world(), specs, {.reduction = tw::Reduction::mean});
  EXPECT_EQ(reducer.exposed_time().count(), 0);
  reducer.begin();
  for (int64_t id = 0; id < reducer.size(); ++id) reducer.mark_unused(id);
  reducer.wait();
  EXPECT_GT(reducer.exposed_time().count(), 0);
}

}  // namespace reducer_test
