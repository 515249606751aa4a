// SPDX-License-Identifier: Apache-2.0
// In float64, after T steps: sum of results + sum of residuals = sum of gradients, to rounding (a few dozen additions of numbers of order 1: 1e-12).
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/gradients.hpp>

namespace compression_test {

using tw::testing::place;
using tw::testing::world;

const std::vector<tw::TensorSpec> specs{
    {"a", {12, 20}, at::kDouble}, {"b", {12}, at::kDouble}, {"c", {8, 3, 5, 5}, at::kDouble}, {"d", {}, at::kDouble}};

at::Tensor gradient_of(int step, size_t id, int rank) {
  torch::manual_seed(static_cast<uint64_t>(1000 * step + 10 * static_cast<int>(id) + rank));
  return place(torch::randn(specs[id].shape, torch::kDouble));
}

at::Tensor sum_of(int step, size_t id) {
  at::Tensor sum = place(torch::zeros(specs[id].shape, torch::kDouble));
  for (int rank = 0; rank < world().size(); ++rank) sum = sum + gradient_of(step, id, rank);
  return sum;
}

void run_step(tw::Reducer& reducer, int step, int64_t samples = 1) {
  reducer.begin(samples);
  for (size_t id = 0; id < specs.size(); ++id) reducer.mark_ready(static_cast<int64_t>(id), gradient_of(step, id, world().rank()));
  reducer.wait();
}

tw::ReducerOptions with(std::shared_ptr<tw::Compressor> compressor, bool overlap = false) {
  return {.reduction = tw::Reduction::sum,
          .buckets = {.first_bucket_bytes = 1024, .bucket_bytes = 4096},
          .overlap = overlap,
          .compressor = std::move(compressor),
          .device = tw::testing::device()};
}

at::Tensor residual_of(const tw::Compressor& compressor, size_t id) {
  for (const tw::NamedShard& shard : compressor.shards()) {
    if (shard.name != "compression/" + specs[id].name + "/residual") continue;
    EXPECT_EQ(shard.on_reshard, tw::OnReshard::sum);
    const at::Tensor sum = shard.tensor.clone();
    tw::allreduce(world(), sum, tw::ReduceOp::sum);
    return sum;
  }
  ADD_FAILURE() << "no residual of " << specs[id].name;
  return {};
}

void expect_nothing_lost(const std::shared_ptr<tw::Compressor>& compressor, bool overlap = false) {
  tw::Reducer reducer(world(), specs, with(compressor, overlap));
  std::vector<at::Tensor> received(specs.size());
  std::vector<at::Tensor> given(specs.size());
  for (int step = 0; step < 8; ++step) {
    run_step(reducer, step);
    for (size_t id = 0; id < specs.size(); ++id) {
      const at::Tensor& result = reducer.gradient(static_cast<int64_t>(id));
      EXPECT_TRUE(tw::compare_replicas(world(), result).identical);
      received[id] = received[id].defined() ? received[id] + result : result.clone();
      given[id] = given[id].defined() ? given[id] + sum_of(step, id) : sum_of(step, id);
    }
  }
  for (size_t id = 0; id < specs.size(); ++id) {
    EXPECT_TRUE(torch::allclose(received[id] + residual_of(*compressor, id), given[id], 0, 1e-12)) << specs[id].name;
  }
}

TEST(TopK, LosesNothingFromStepToStep) {
  expect_nothing_lost(tw::top_k_compression({.fraction = 0.1}));
  expect_nothing_lost(tw::top_k_compression({.fraction = 0.9}));  // uses an all-reduce
  expect_nothing_lost(tw::top_k_compression({.fraction = 0.1}), /*overlap=*/true);
}
TEST(PowerSgd, LosesNothingFromStepToStep) {
  for (const bool overlap : {false, true}) expect_nothing_lost(tw::power_sgd_compression({.rank = 1}), overlap);
}

// Two heads in turn: the residual of one must not leave with a step that does not hand its gradient out.
TEST(Compression, LosesNothingOfGradientsThatSitOut) {
  for (const auto& compressor :
       {tw::top_k_compression({.fraction = 0.1}), tw::top_k_compression({.fraction = 0.9}), tw::power_sgd_compression({.rank = 1})}) {
    tw::Reducer reducer(world(), specs, with(compressor));
    std::vector<at::Tensor> received(specs.size());
    std::vector<at::Tensor> given(specs.size());
    for (int step = 0; step < 8; ++step) {
      reducer.begin();
      for (size_t id = 0; id < specs.size(); ++id) {
        if (id % 2 == static_cast<size_t>(step) % 2) {
          reducer.mark_unused(static_cast<int64_t>(id));
        } else {
          reducer.mark_ready(static_cast<int64_t>(id), gradient_of(step, id, world().rank()));
        }
      }
      reducer.wait();
      for (size_t id = 0; id < specs.size(); ++id) {
        if (!reducer.used(static_cast<int64_t>(id))) continue;
        const at::Tensor& result = reducer.gradient(static_cast<int64_t>(id));
        received[id] = received[id].defined() ? received[id] + result : result.clone();
        given[id] = given[id].defined() ? given[id] + sum_of(step, id) : sum_of(step, id);
      }
    }
    for (size_t id = 0; id < specs.size(); ++id) {
      const at::Tensor all = received[id] + residual_of(*compressor, id);
      EXPECT_TRUE(torch::allclose(all, given[id], 0, 1e-12)) << compressor->describe() << ' ' << specs[id].name;
    }
  }
}

// Gradients of a loss whose scale varies between steps; received gradients are divided by the scale of their step.
TEST(Compression, FollowsTheLossScale) {
  for (const auto& compressor : {tw::top_k_compression({.fraction = 0.1}), tw::power_sgd_compression({.rank = 1})}) {
    tw::Reducer reducer(world(), specs, with(compressor));
    tw::LossScaler scaler({.scale = 1024, .growth = 4, .growth_interval = 2}, compressor);
    at::Tensor received = place(torch::zeros(specs[0].shape, torch::kDouble));
    at::Tensor given = received.clone();
    for (int step = 0; step < 9; ++step) {
      reducer.begin();
      for (size_t id = 0; id < specs.size(); ++id) {
        reducer.mark_ready(static_cast<int64_t>(id), gradient_of(step, id, world().rank()) * scaler.scale());
      }
      reducer.wait();
      received += reducer.gradient(0) / scaler.scale();
      given += sum_of(step, 0);
      scaler.update(step != 5);  // as if something else had overflowed
    }
    EXPECT_NE(scaler.scale(), 1024);
    EXPECT_TRUE(torch::allclose(received + residual_of(*compressor, 0) / scaler.scale(), given, 0, 1e-11)) << compressor->describe();
  }
}

// Bytes sent before wait() were in flight while gradients were still to come.
TEST(Compression, IsUnderWayWhileGradientsAreComputed) {
  for (const auto reduction : {tw::Reduction::sum, tw::Reduction::mean, tw::Reduction::sample_weighted}) {
    auto options = with(tw::half_compression(tw::HalfPrecision::float16), /*overlap=*/true);
    options.reduction = reduction;
    tw::Reducer reducer(world(), specs, options);
    reducer.begin();
    for (size_t id = specs.size(); id-- > 1;) reducer.mark_ready(static_cast<int64_t>(id), gradient_of(0, id, world().rank()));
    const int64_t before = reducer.payload_bytes();
    reducer.mark_ready(0, gradient_of(0, 0, world().rank()));
    reducer.wait();
    if (reduction == tw::Reduction::sample_weighted) {
      EXPECT_EQ(before, 0);  // the weight is not known yet
    } else {
      EXPECT_GT(before, 0);
    }
    EXPECT_GT(reducer.payload_bytes(), before);
    const double divisor = reduction == tw::Reduction::sum ? 1 : world().size();
    // Halves of up to 4 numbers, and their sum: 5 roundings of 2^-11.
    EXPECT_TRUE(torch::allclose(reducer.gradient(2), sum_of(0, 2) / divisor, 5.0 / 2048, 5.0 / 512));
  }
}

TEST(TopK, OfAllElementsIsThePlainSum) {
  tw::Reducer reducer(world(), specs, with(tw::top_k_compression({.fraction = 1})));
  run_step(reducer, 0);
  for (size_t id = 0; id < specs.size(); ++id) EXPECT_TRUE(torch::allclose(reducer.gradient(static_cast<int64_t>(id)), sum_of(0, id), 0, 1e-13));
}

TEST(TopK, TakesTheGreatest) {
  tw::Reducer reducer(world(), {{"g", {16}, at::kFloat}}, with(tw::top_k_compression({.fraction = 0.125})));
  reducer.begin();
  const at::Tensor values = place(torch::ones({16}));
  values[3] = -5;
  values[world().rank() % 2 == 0 ? 7 : 8] = 4;
  reducer.mark_ready(0, values);
  reducer.wait();
  const int even = (world().size() + 1) / 2;
  at::Tensor expected = place(torch::zeros({16}));
  expected[3] = -5 * world().size();
  expected[7] = 4 * even;
  expected[8] = 4 * (world().size() - even);
  EXPECT_TRUE(reducer.gradient(0).equal(expected)) << reducer.gradient(0);
  EXPECT_EQ(reducer.payload_bytes(), 2 * 8);
}

// With all-gathers, P ranks receive (P - 1) 12 k bytes here; with an all-reduce, 2 (P - 1) / P 8 n. The smaller one is used.
TEST(TopK, GathersWhereThatTakesFewerBytes) {
  for (const int64_t k : {2, 7, 8, 16}) {
    tw::Reducer reducer(world(), {{"g", {16}, at::kDouble}}, with(tw::top_k_compression({.fraction = static_cast<double>(k) / 16})));
    reducer.begin();
    const at::Tensor values = place(torch::arange(1.0, 17.0, torch::kDouble));
    reducer.mark_ready(0, values);
    reducer.wait();
    const at::Tensor expected = values * world().size();
    expected.narrow(0, 0, 16 - k).zero_();
    EXPECT_TRUE(reducer.gradient(0).equal(expected)) << reducer.gradient(0);
    const bool gathers = world().size() == 1 || world().size() * 12 * k <= 2 * 8 * 16;
    EXPECT_EQ(reducer.payload_bytes(), gathers ? 12 * k : 8 * 16) << k;
  }
}

// If each rank has a matrix of rank 1, their sum has rank P at most. An approximation of rank P is exact after one step: the image of P random
// vectors is the whole image, except on a set of measure zero. Rounding: condition numbers of some hundreds.
TEST(PowerSgd, IsExactForMatricesOfItsRank) {
  const std::vector<tw::TensorSpec> matrix{{"m", {30, 40}, at::kDouble}};
  tw::Reducer reducer(world(), matrix, with(tw::power_sgd_compression({.rank = world().size()})));
  const auto value = [](int rank) {
    torch::manual_seed(static_cast<uint64_t>(rank));
    return place(torch::outer(torch::randn({30}, torch::kDouble), torch::randn({40}, torch::kDouble)));
  };
  at::Tensor expected = place(torch::zeros({30, 40}, torch::kDouble));
  for (int rank = 0; rank < world().size(); ++rank) expected = expected + value(rank);
  reducer.begin();
  reducer.mark_ready(0, value(world().rank()));
  reducer.wait();
  EXPECT_LE((reducer.gradient(0) - expected).norm().item<double>(), 1e-10 * expected.norm().item<double>());
  EXPECT_EQ(reducer.payload_bytes(), 8 * world().size() * (30 + 40));
}

TEST(HalfPrecision, IsTheSumOfRoundedGradientsRoundedOnce) {
  for (const auto precision : {tw::HalfPrecision::float16, tw::HalfPrecision::bfloat16}) {
    const auto dtype = precision == tw::HalfPrecision::float16 ? torch::kHalf : torch::kBFloat16;
    tw::Reducer reducer(world(), specs, with(tw::half_compression(precision)));
    run_step(reducer, 0);
    for (size_t id = 0; id < specs.size(); ++id) {
      at::Tensor sum = place(torch::zeros(specs[id].shape));
      for (int rank = 0; rank < world().size(); ++rank) sum = sum + gradient_of(0, id, rank).to(dtype).to(torch::kFloat);
      // The order of at most 4 float32 additions may change the last bit before rounding to half: half a unit in the last place, 2^-8 relative.
      EXPECT_TRUE(torch::allclose(reducer.gradient(static_cast<int64_t>(id)), sum.to(dtype).to(torch::kDouble), 1.0 / 256, 1e-5));
    }
    EXPECT_EQ(reducer.payload_bytes() % 2, 0);
    EXPECT_LE(reducer.payload_bytes(), 2 * (240 + 12 + 600 + 1 + 4 * 8));  // padding to cache lines of 8 float64
  }
}

TEST(Compression, KeepsTheWeightsOfSamples) {
  const int64_t samples = world().rank() == 1 ? 0 : 3 + world().rank();
  auto options = with(tw::top_k_compression({.fraction = 1}));
  options.reduction = tw::Reduction::sample_weighted;
  tw::Reducer reducer(world(), specs, options);
  run_step(reducer, 0, samples);
  at::Tensor expected = place(torch::zeros(specs[0].shape, torch::kDouble));
  double total = 0;
  for (int rank = 0; rank < world().size(); ++rank) {
    const double weight = rank == 1 ? 0 : 3 + rank;
    expected = expected + weight * gradient_of(0, 0, rank);
    total += weight;
  }
  EXPECT_TRUE(torch::allclose(reducer.gradient(0), expected / total, 0, 1e-13));
}

TEST(Compression, WhatRemembersServesOneReducer) {
  for (const auto& compressor : {tw::top_k_compression(), tw::power_sgd_compression()}) {
    tw::Reducer first(world(), specs, with(compressor));
    run_step(first, 0);
    const at::Tensor residual = residual_of(*compressor, 0);
    try {
      tw::Reducer(world(), specs, with(compressor));
      ADD_FAILURE() << "no exception";
    } catch (const tw::ContractError& error) {
      EXPECT_NE(std::string(error.what()).find("make one for each Reducer"), std::string::npos) << error.what();
    }
    EXPECT_TRUE(residual_of(*compressor, 0).equal(residual));
  }
  const auto half = tw::half_compression(tw::HalfPrecision::float16);  // keeps no state
  tw::Reducer first(world(), specs, with(half));
  tw::Reducer other(world(), {specs[2]}, with(half));
  run_step(first, 0);
  const at::Tensor before = first.gradient(0).clone();
  other.begin();
  other.mark_ready(0, gradient_of(0, 2, world().rank()));
  other.wait();
  run_step(first, 0);
  EXPECT_TRUE(first.gradient(0).equal(before));
  EXPECT_TRUE(torch::allclose(other.gradient(0), first.gradient(2), 1.0 / 1024, 1e-5));
}

TEST(Compression, RefusesWhatItCannotDo) {
  for (const auto& compressor : {tw::half_compression(tw::HalfPrecision::float16), tw::top_k_compression(), tw::power_sgd_compression()}) {
    try {
      tw::Reducer(world(), {{"fine", {3}, at::kFloat}, {"phase", {3}, at::kComplexFloat}}, with(compressor));
      ADD_FAILURE() << "no exception";
    } catch (const tw::ContractError& error) {
      EXPECT_NE(std::string(error.what()).find("got phase complex64 [3]"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(tw::top_k_compression({.fraction = 0}), tw::ContractError);
  EXPECT_THROW(tw::power_sgd_compression({.rank = 0}), tw::ContractError);
}

}  // namespace compression_test
