// SPDX-License-Identifier: Apache-2.0
#include <c10/core/Allocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <tw/tensor/memory_account.hpp>

namespace memory_account_test {

using tw::KnownMemory;
using tw::MemoryAccount;
using tw::MemoryByUse;
using tw::MemoryUse;

at::Tensor block(int64_t bytes) { return at::empty({bytes}, at::kByte); }
/// Allocates a block, and frees it.
void pass(int64_t bytes) { (void)block(bytes); }

KnownMemory known_as(MemoryUse use, const at::Tensor& tensor, int sharers = 1) {
  KnownMemory known;
  known.add(use, tensor, sharers);
  return known;
}

/// An interval that begins with `phase`. @param run returns what is known at the end
void interval(MemoryAccount& account, const char* phase, const std::function<KnownMemory()>& run, int64_t step = 0) {
  account.begin();
  account.phase(phase);
  const KnownMemory known = run();
  EXPECT_TRUE(account.matters());
  account.end(step, known);
}

MemoryByUse of(int64_t parameters, int64_t gradients, int64_t optimizer, int64_t buffers, int64_t activations) {
  return {{parameters, gradients, optimizer, buffers, activations}};
}

TEST(MemoryAccount, WhatStaysWasMeantForThatFromTheBeginning) {
  const at::Tensor older = block(1000);
  at::Tensor gradient;
  at::Tensor state;
  MemoryAccount account(at::kCPU);
  const auto run = [&] {
    gradient = block(400);
    pass(300);
    account.phase("update");
    state = block(200);
    KnownMemory known = known_as(MemoryUse::parameters, older);
    known.add(MemoryUse::buffers, older.narrow(0, 0, 10));  // known already
    known.add(MemoryUse::gradients, gradient);
    known.add(MemoryUse::optimizer, state);
    known.add(MemoryUse::gradients, at::Tensor());
    known.add(MemoryUse::buffers, 50);
    return known;
  };
  interval(account, "backward", run, 7);
  EXPECT_EQ(account.peak().held, of(1000, 400, 0, 50, 300));
  EXPECT_EQ(account.peak().held.together(), 1750);
  EXPECT_EQ(account.peak().during, "backward");
  EXPECT_EQ(account.peak().step, 7);
}

TEST(MemoryAccount, ThePlaceOfAGradientMayHaveServedBefore) {
  const at::Tensor gradient = block(4000);
  const auto tell = [&](int64_t bytes) { c10::reportMemoryUsageToProfiler(gradient.data_ptr(), bytes, 0, 0, c10::Device(at::kCPU)); };
  at::Tensor more;
  MemoryAccount account(at::kCPU);
  interval(account, "forward", [&] {
    tell(4000);
    tell(-4000);
    account.phase("backward");
    tell(4000);
    more = block(1);
    return known_as(MemoryUse::gradients, gradient);
  });
  EXPECT_EQ(account.peak().held, of(0, 4000, 0, 0, 1));
  EXPECT_EQ(account.peak().during, "backward");
  tell(-4000);
}

TEST(MemoryAccount, WhatWasKnownAndIsGoneWasThere) {
  MemoryAccount account(at::kCPU);
  at::Tensor gradient;
  at::Tensor activation;
  interval(account, "backward", [&] { return known_as(MemoryUse::gradients, gradient = block(400)); });
  interval(account, "forward", [&] {
    activation = block(300);
    gradient.reset();
    return KnownMemory();
  });
  EXPECT_EQ(account.peak().held, of(0, 400, 0, 0, 300));
}

TEST(MemoryAccount, WhatHoldsLessDoesNotMatter) {
  MemoryAccount account(at::kCPU);
  for (const int64_t bytes : {300, 200, 300}) {
    account.begin();
    account.phase("forward");
    pass(bytes);
    if (account.matters()) account.end(bytes, {});
  }
  EXPECT_EQ(account.peak().held.together(), 300);
  account.begin();
  pass(200);
  EXPECT_FALSE(account.matters());
  pass(301);
  EXPECT_TRUE(account.matters());
}

TEST(MemoryAccount, CountsOnAfterARest) {
  MemoryAccount account(at::kCPU);
  const auto count = [&](const at::Tensor& parameter, int64_t passing_bytes) {
    interval(account, "forward", [&] {
      pass(passing_bytes);
      return known_as(MemoryUse::parameters, parameter);
    });
  };
  const at::Tensor first = block(100);
  count(first, 300);
  account.rest();
  account.phase("forward");  // ignored while resting
  EXPECT_FALSE(account.matters());
  const at::Tensor grown = block(200);
  count(grown, 250);  // matters, since what is not counted may be more than before
  EXPECT_EQ(account.peak().held, of(200, 0, 0, 0, 250));
}

TEST(MemoryAccount, AMemoryOfSeveralRanksIsSharedOutAmongThem) {
  const at::Tensor older = block(900);
  at::Tensor activation;
  MemoryAccount account(at::kCPU);
  interval(account, "forward", [&] {
    activation = block(10);
    return known_as(MemoryUse::parameters, older, 3);
  });
  EXPECT_EQ(account.peak().held, of(300, 0, 0, 0, 10));
}

TEST(MemoryAccount, KeepsSamplesOfTheLastInterval) {
  MemoryAccount account(at::kCPU, /*keeps_samples=*/true);
  at::Tensor gradient;
  std::vector<at::Tensor> activations;
  for (int64_t step = 0; step < 2; ++step) {
    const auto run = [&] {
      gradient.reset();
      activations = {block(25600), block(50)};  // the second one has less than 1/256
      account.phase("backward");
      gradient = block(1000);
      return known_as(MemoryUse::gradients, gradient);
    };
    interval(account, "forward", run, step);
    activations.clear();
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
