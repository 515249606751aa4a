// SPDX-License-Identifier: Apache-2.0
#include "bench_tune.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "bench_predict.hpp"

namespace bench_tune_test {

using tw::Collective;
using tw::tool::Measurement;
using tw::tool::Tuning;

Measurement measured(Collective operation, const std::string& backend, int64_t bytes, double us) {
  return {.operation = operation, .backend = backend, .bytes = bytes, .rounds = 10, .times = {.median_us = us, .spread = 0.1}};
}

TEST(Tuning, TakesTheFastestOfEachSize) {
  Tuning tuning;
  tuning.add(measured(Collective::allreduce, "mpi", 1024, 100));
  tuning.add(measured(Collective::allreduce, "ring", 1024, 200));
  for (const int64_t bytes : {4096, 16384}) {
    tuning.add(measured(Collective::allreduce, "mpi", bytes, 900));
    tuning.add(measured(Collective::allreduce, "ring", bytes, 500));
  }
  tuning.add(measured(Collective::allreduce, "shared_memory/in_place", 4096, 1));
  tuning.add(measured(Collective::barrier, "mpi", 0, 1));
  tuning.add(measured(Collective::send, "mpi", 4096, 1));
  const auto selection = tuning.selection();
  ASSERT_EQ(selection.choices().size(), 2U);
  EXPECT_EQ(selection.choices()[0].backend, "mpi");
  EXPECT_EQ(selection.choices()[0].largest_bytes, 2048);
  EXPECT_EQ(selection.choices()[0].reason, "measured with 1 KiB: 0.1 ms, ring 0.2 ms");
  EXPECT_EQ(selection.choices()[1].backend, "ring");
  EXPECT_EQ(selection.choice(Collective::allreduce, int64_t{1} << 40)->backend, "ring");
}

TEST(Predict, SaysWhatWouldBeTaken) {
  std::ostringstream out;
  tw::tool::predict({.nodes = 2, .ranks_per_node = 4}, {"allreduce"}, 1024, 1 << 20, out);
  const std::string text = out.str();
  EXPECT_EQ(text.find("8 ranks on 2 nodes."), 0U) << text;
  EXPECT_NE(text.find("\n       1 KiB  * mpi: "), std::string::npos) << text;
  EXPECT_NE(text.find("\n           *  hierarchical "), std::string::npos) << text;
  EXPECT_EQ(text.find("broadcast"), std::string::npos) << text;
}

}  // namespace bench_tune_test
