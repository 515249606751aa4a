// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>
#include <tw/gradients/bucket_plan.hpp>
#include <tw/gradients/shard_plan.hpp>

namespace bucket_plan_test {

using c10::ScalarType;

tw::TensorSpec gradient(int64_t numel, ScalarType dtype = ScalarType::Float) { return {"g", {numel}, dtype}; }

TEST(BucketPlan, FillsInReverseOrder) {
  const std::vector<tw::TensorSpec> gradients{gradient(16), gradient(16), gradient(16)};
  const auto plan = tw::plan_buckets(gradients, {.first_bucket_bytes = 64, .bucket_bytes = 128});
  ASSERT_EQ(plan.buckets.size(), 2U);
  EXPECT_EQ(plan.buckets[0].gradients, (std::vector<int64_t>{2}));
  EXPECT_EQ(plan.buckets[1].gradients, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(plan.placements[0].bucket, 1);
  EXPECT_EQ(plan.placements[0].offset, 16);
}

TEST(BucketPlan, GivesALargeGradientABucketOfItsOwn) {
  const std::vector<tw::TensorSpec> gradients{gradient(4), gradient(1 << 20), gradient(4)};
  const auto plan = tw::plan_buckets(gradients, {.first_bucket_bytes = 1024, .bucket_bytes = 2048});
  ASSERT_EQ(plan.buckets.size(), 3U);
  EXPECT_EQ(plan.buckets[1].gradients, (std::vector<int64_t>{1}));
}

TEST(BucketPlan, SeparatesDtypes) {
  const std::vector<tw::TensorSpec> gradients{gradient(4), gradient(4, ScalarType::Double), gradient(4), gradient(4, ScalarType::Double)};
  const auto plan = tw::plan_buckets(gradients);
  ASSERT_EQ(plan.buckets.size(), 2U);
  EXPECT_EQ(plan.buckets[0].dtype, ScalarType::Double);  // its last gradient, 1, comes before the floats' last, 0
  EXPECT_EQ(plan.buckets[0].gradients, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(plan.buckets[1].gradients, (std::vector<int64_t>{2, 0}));
}

TEST(BucketPlan, PlacesEveryGradientOnceWithoutOverlapWithinTheLimits) {
  tw::CounterRng random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<tw::TensorSpec> gradients;
    const uint32_t count = 1 + random.below(40);
    for (uint32_t i = 0; i < count; ++i)
      gradients.push_back(gradient(random.below(500), random.below(3) == 0 ? ScalarType::Double : ScalarType::Float));
    const tw::BucketOptions options{.first_bucket_bytes = 512, .bucket_bytes = 4096};
    const auto plan = tw::plan_buckets(gradients, options);

    std::set<int64_t> placed;
    int64_t last_of_previous = static_cast<int64_t>(count);
    for (size_t b = 0; b < plan.buckets.size(); ++b) {
      const auto& bucket = plan.buckets[b];
      const auto bytes_each = static_cast<int64_t>(c10::elementSize(bucket.dtype));
      int64_t end = 0;
      for (const int64_t id : bucket.gradients) {
        const auto& place = plan.placements[static_cast<size_t>(id)];
        EXPECT_TRUE(placed.insert(id).second);
        EXPECT_EQ(place.bucket, static_cast<int64_t>(b));
        EXPECT_EQ(gradients[static_cast<size_t>(id)].dtype, bucket.dtype);
        EXPECT_GE(place.offset, end);
        EXPECT_EQ(place.offset * bytes_each % 64, 0);
        end = place.offset + gradients[static_cast<size_t>(id)].numel();
      }
      EXPECT_LE(end, bucket.numel);
      EXPECT_TRUE(bucket.numel * bytes_each <= options.bucket_bytes || bucket.gradients.size() == 1);
      EXPECT_LT(bucket.gradients.back(), last_of_previous);
      last_of_previous = bucket.gradients.back();
    }
    EXPECT_EQ(placed.size(), gradients.size());
  }
}

TEST(BucketPlan, FollowsTheOrderOfArrival) {
  const std::vector<tw::TensorSpec> gradients{gradient(16), gradient(16), gradient(16), gradient(16)};
  const auto plan = tw::plan_buckets(gradients, {.first_bucket_bytes = 64, .bucket_bytes = 128}, {.order = {{1, 3, 0}}});
  ASSERT_EQ(plan.buckets.size(), 2U);
  EXPECT_EQ(plan.buckets[0].gradients, (std::vector<int64_t>{1}));
  EXPECT_EQ(plan.buckets[1].gradients, (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(plan.placements[2].bucket, -1);  // left out of all buckets
}

TEST(BucketPlan, KeepsTheGradientsOfRanksApart) {
  const std::vector<tw::TensorSpec> gradients{gradient(16), gradient(16), gradient(16), gradient(16)};
  const auto plan = tw::plan_buckets(gradients, {}, {.owners = {0, 1, 1, 0}});
  ASSERT_EQ(plan.buckets.size(), 2U);
  EXPECT_EQ(plan.buckets[0].gradients, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(plan.buckets[0].owner, 1);
  EXPECT_EQ(plan.buckets[1].gradients, (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(plan.buckets[1].owner, 0);
}

TEST(AssignOwners, BalancesAndCoversEveryTensor) {
  EXPECT_EQ(tw::assign_owners(std::vector<int64_t>{5, 4, 3, 3, 3}, 2), (std::vector<int>{0, 1, 1, 0, 1}));
  EXPECT_EQ(tw::assign_owners(std::vector<int64_t>{7}, 3), (std::vector<int>{0}));
  EXPECT_TRUE(tw::assign_owners({}, 3).empty());
}

// The pieces of all ranks together are every element of every gradient, once.
TEST(ShardPieces, CoverEveryElementOnce) {
  tw::CounterRng random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<tw::TensorSpec> gradients;
    const uint32_t count = 1 + random.below(20);
    std::vector<int64_t> numels;
    for (uint32_t i = 0; i < count; ++i) {
      gradients.push_back(gradient(random.below(300), random.below(3) == 0 ? ScalarType::Double : ScalarType::Float));
      numels.push_back(gradients.back().numel());
    }
    const int ranks = 1 + static_cast<int>(random.below(7));
    tw::Arrangement arrangement{.slices = ranks};
    if (round % 2 == 1) arrangement = {.owners = tw::assign_owners(numels, ranks)};
    const auto plan = tw::plan_buckets(gradients, {.first_bucket_bytes = 512, .bucket_bytes = 2048}, arrangement);
    std::vector<std::vector<int>> seen;
    for (const int64_t numel : numels) seen.emplace_back(static_cast<size_t>(numel));
    for (int rank = 0; rank < ranks; ++rank) {
      for (const tw::ShardPiece& piece : tw::shard_pieces(plan, gradients, rank, ranks)) {
        const auto& place = plan.placements[static_cast<size_t>(piece.gradient)];
        EXPECT_EQ(piece.bucket, place.bucket);
        EXPECT_EQ(piece.offset, place.offset + piece.begin);
        const auto& bucket = plan.buckets[static_cast<size_t>(piece.bucket)];
        if (bucket.owner < 0) {
          EXPECT_EQ(bucket.numel % ranks, 0);
          EXPECT_EQ(piece.offset / (bucket.numel / ranks), rank);
          EXPECT_EQ((piece.offset + piece.count - 1) / (bucket.numel / ranks), rank);
        }
        for (int64_t i = 0; i < piece.count; ++i) ++seen[static_cast<size_t>(piece.gradient)][static_cast<size_t>(piece.begin + i)];
      }
    }
    for (const auto& elements : seen) EXPECT_TRUE(std::all_of(elements.begin(), elements.end(), [](int n) { return n == 1; }));
  }
}

TEST(BucketPlan, NamesTheWrongOption) {
  const std::vector<tw::TensorSpec> gradients{gradient(4)};
  EXPECT_THROW(tw::plan_buckets({}), tw::ContractError);
  EXPECT_THROW(tw::plan_buckets(gradients, {.first_bucket_bytes = 0}), tw::ContractError);
  try {
    tw::plan_buckets(gradients, {.first_bucket_bytes = 100, .bucket_bytes = 50});
    FAIL() << "no exception";
  } catch (const tw::ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("bucket_bytes (50)"), std::string::npos) << error.what();
  }
}

}  // namespace bucket_plan_test
