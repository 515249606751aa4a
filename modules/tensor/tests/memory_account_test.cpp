// SPDX-License-Identifier: Apache-2.0
#include <c10/core/Allocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/tensor/memory_account.hpp>

namespace memory_account_test {

using tw::KnownMemory;
using tw::MemoryAccount;
using tw::MemoryByUse;
using tw::MemoryUse;

at::Tensor block(int64_t bytes) { return at::empty({bytes}, at::kByte); }

MemoryByUse of(int64_t parameters, int64_t gradients, int64_t optimizer, int64_t buffers, int64_t activations) {
  return {{parameters, gradients, optimizer, buffers, activations}};
}

TEST(MemoryAccount, WhatStaysWasMeantForThatFromTheBeginning) {
  const at::Tensor older = block(1000);
  MemoryAccount account(at::kCPU);
  account.begin();
  account.phase("backward");
  const at::Tensor gradient = block(400);
  {
    const at::Tensor passing = block(300);
  }
  account.phase("update");
  const at::Tensor state = block(200);
  ASSERT_TRUE(account.matters());
  KnownMemory known;
  known.add(MemoryUse::parameters, older);
  known.add(MemoryUse::buffers, older.narrow(0, 0, 10));  // known already
  known.add(MemoryUse::gradients, gradient);
  known.add(MemoryUse::optimizer, state);
  known.add(MemoryUse::gradients, at::Tensor());
  known.add(MemoryUse::buffers, 50);
  account.end(7, known);
  EXPECT_EQ(account.peak().held, of(1000, 400, 0, 50, 300));
  EXPECT_EQ(account.peak().held.together(), 1750);
  EXPECT_EQ(account.peak().during, "backward");
  EXPECT_EQ(account.peak().step, 7);
}

TEST(MemoryAccount, ThePlaceOfAGradientMayHaveServedBefore) {
  const at::Tensor gradient = block(4000);
  const auto tell = [&](int64_t bytes) { c10::reportMemoryUsageToProfiler(gradient.data_ptr(), bytes, 0, 0, c10::Device(at::kCPU)); };
  MemoryAccount account(at::kCPU);
  account.begin();
  account.phase("forward");
  tell(4000);
  tell(-4000);
  account.phase("backward");
  tell(4000);
  const at::Tensor more = block(1);
  KnownMemory known;
  known.add(MemoryUse::gradients, gradient);
  account.end(0, known);
  EXPECT_EQ(account.peak().held, of(0, 4000, 0, 0, 1));
  EXPECT_EQ(account.peak().during, "backward");
  tell(-4000);
}

TEST(MemoryAccount, WhatWasKnownAndIsGoneWasThere) {
  MemoryAccount account(at::kCPU);
  const auto known_of = [](const at::Tensor& gradient) {
    KnownMemory known;
    known.add(MemoryUse::gradients, gradient);
    return known;
  };
  account.begin();
  account.phase("backward");
  at::Tensor gradient = block(400);
  account.end(0, known_of(gradient));
  account.begin();
  account.phase("forward");
  const at::Tensor activation = block(300);
  gradient.reset();
  account.end(1, known_of(gradient));
  EXPECT_EQ(account.peak().held, of(0, 400, 0, 0, 300));
}

TEST(MemoryAccount, WhatHoldsLessDoesNotMatter) {
  MemoryAccount account(at::kCPU);
  for (const int64_t bytes : {300, 200, 300}) {
    account.begin();
    account.phase("forward");
    {
      const at::Tensor passing = block(bytes);
    }
    if (account.matters()) account.end(bytes, {});
  }
  EXPECT_EQ(account.peak().held.together(), 300);
  account.begin();
  {
    const at::Tensor passing = block(200);
  }
  EXPECT_FALSE(account.matters());
  {
    const at::Tensor passing = block(301);
  }
  EXPECT_TRUE(account.matters());
}

TEST(MemoryAccount, CountsOnAfterARest) {
  MemoryAccount account(at::kCPU);
  const auto interval = [&](const at::Tensor& parameter, int64_t passing_bytes) {
    account.begin();
    account.phase("forward");
    {
      const at::Tensor passing = block(passing_bytes);
    }
    EXPECT_TRUE(account.matters()) << "what is not counted may be more than before";
    KnownMemory known;
    known.add(MemoryUse::parameters, parameter);
    account.end(0, known);
  };
  const at::Tensor first = block(100);
  interval(first, 300);
  account.rest();
  account.phase("forward");  // ignored while resting
  EXPECT_FALSE(account.matters());
  const at::Tensor grown = block(200);
  interval(grown, 250);
  EXPECT_EQ(account.peak().held, of(200, 0, 0, 0, 250));
}

TEST(MemoryAccount, AMemoryOfSeveralRanksIsSharedOutAmongThem) {
  const at::Tensor older = block(900);
  MemoryAccount account(at::kCPU);
  account.begin();
  account.phase("forward");
  const at::Tensor passing = block(10);
  KnownMemory known;
  known.add(MemoryUse::parameters, older, 3);
  account.end(0, known);
  EXPECT_EQ(account.peak().held, of(300, 0, 0, 0, 10));
}

TEST(MemoryAccount, KeepsSamplesOfTheLastInterval) {
  MemoryAccount account(at::kCPU, /*keeps_samples=*/true);
  at::Tensor gradient;
  for (int interval = 0; interval < 2; ++interval) {
    account.begin();
    account.phase("forward");
    gradient.reset();
    const at::Tensor activation = block(25600);
    const at::Tensor little = block(50);  // less than 1/256
    account.phase("backward");
    gradient = block(1000);
    KnownMemory known;
    known.add(MemoryUse::gradients, gradient);
    EXPECT_TRUE(account.matters()) << "samples are wanted of each";
    account.end(interval, known);
  }
  std::vector<std::pair<std::string, MemoryByUse>> samples;
  for (const auto& sample : account.samples()) samples.emplace_back(sample.during, sample.held);
  const std::vector<std::pair<std::string, MemoryByUse>> expected{{"forward", of(0, 1000, 0, 0, 0)},      {"forward", of(0, 0, 0, 0, 0)},
                                                                  {"forward", of(0, 0, 0, 0, 25600)},     {"backward", of(0, 0, 0, 0, 25650)},
                                                                  {"backward", of(0, 1000, 0, 0, 25650)}, {"backward", of(0, 1000, 0, 0, 25650)}};
  EXPECT_EQ(samples, expected);
  EXPECT_TRUE(std::is_sorted(account.samples().begin(), account.samples().end(), [](const auto& a, const auto& b) { return a.time < b.time; }));
}

}  // namespace memory_account_test
