// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "bench_figures.hpp"

namespace {

using tw::Collective;
using tw::tool::bandwidth;
using tw::tool::message_sizes;

TEST(Bandwidth, OfTheAlgorithmIsBytesOverTime) {
  for (const Collective operation : tw::tool::bench_operations()) {
    EXPECT_DOUBLE_EQ(bandwidth(operation, 1'000'000'000, 3, 0.5e6).algorithm_gbps, 2) << tw::tool::bench_name(operation);
  }
}

// 12 bytes in 12 us are 10^-3 GB/s; what the bus carries of them, for every operation.
TEST(Bandwidth, OfTheBusCountsWhatEachRankMustMove) {
  const auto bus = [](Collective operation, int ranks) { return 1e3 * bandwidth(operation, 12, ranks, 12).bus_gbps; };
  EXPECT_DOUBLE_EQ(bus(Collective::allreduce, 1), 0);
  EXPECT_DOUBLE_EQ(bus(Collective::allreduce, 2), 1);
  EXPECT_DOUBLE_EQ(bus(Collective::allreduce, 3), 4.0 / 3);
  EXPECT_DOUBLE_EQ(bus(Collective::allreduce, 4), 1.5);
  for (const Collective operation : {Collective::allgather, Collective::reduce_scatter}) {
    EXPECT_DOUBLE_EQ(bus(operation, 1), 0);
    EXPECT_DOUBLE_EQ(bus(operation, 3), 2.0 / 3);
    EXPECT_DOUBLE_EQ(bus(operation, 4), 0.75);
  }
  for (const Collective operation : {Collective::broadcast, Collective::reduce, Collective::alltoall, Collective::send}) {
    for (const int ranks : {1, 2, 5}) EXPECT_DOUBLE_EQ(bus(operation, ranks), 1);
  }
}

TEST(MessageSizes, GrowByFactorsOfFourAndEndWithTheLargest) {
  EXPECT_EQ(message_sizes(Collective::allreduce, 8, 8, 2), (std::vector<int64_t>{8}));
  EXPECT_EQ(message_sizes(Collective::allreduce, 8, 1024, 2), (std::vector<int64_t>{8, 32, 128, 512, 1024}));
  EXPECT_EQ(message_sizes(Collective::broadcast, 8, 512, 7), (std::vector<int64_t>{8, 32, 128, 512}));
  EXPECT_EQ(message_sizes(Collective::allreduce, 8, 64 << 20, 2).back(), 64 << 20);
  EXPECT_EQ(message_sizes(Collective::allreduce, 0, 16, 2), (std::vector<int64_t>{4, 16}));  // 1 is rounded up, 4 is there already
}

TEST(MessageSizes, AreWholeFloatsForEveryRank) {
  EXPECT_EQ(message_sizes(Collective::reduce, 1, 7, 2), (std::vector<int64_t>{4}));
  EXPECT_EQ(message_sizes(Collective::reduce, 9, 11, 2), (std::vector<int64_t>{8}));
  for (const Collective operation : {Collective::allgather, Collective::reduce_scatter, Collective::alltoall}) {
    EXPECT_EQ(message_sizes(operation, 8, 130, 3), (std::vector<int64_t>{12, 24, 120})) << tw::tool::bench_name(operation);
    EXPECT_EQ(message_sizes(operation, 8, 128, 16), (std::vector<int64_t>{64, 128})) << tw::tool::bench_name(operation);  // none twice
  }
  EXPECT_EQ(message_sizes(Collective::barrier, 8, 1024, 3), (std::vector<int64_t>{0}));
}

TEST(DefaultRounds, AreAtLeastTen) {
  EXPECT_EQ(tw::tool::default_rounds(0), 200);
  EXPECT_EQ(tw::tool::default_rounds(8), 200);
  EXPECT_EQ(tw::tool::default_rounds(1 << 20), 16);
  EXPECT_EQ(tw::tool::default_rounds(int64_t{4} << 30), 10);
}

TEST(Times, AreSummarisedByMedianAndSpread) {
  const auto one = tw::tool::summarise({5});
  EXPECT_DOUBLE_EQ(one.median_us, 5);
  EXPECT_DOUBLE_EQ(one.spread, 0);
  const auto eleven = tw::tool::summarise({10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5});  // p10 = 1, p50 = 5, p90 = 9
  EXPECT_DOUBLE_EQ(eleven.median_us, 5);
  EXPECT_DOUBLE_EQ(eleven.spread, 8.0 / 5);
  EXPECT_DOUBLE_EQ(tw::tool::summarise({4, 2}).median_us, 3);  // between two
}

TEST(SizeText, ShowsWholeUnitsWithoutAPoint) {
  EXPECT_EQ(tw::tool::size_text(0), "0 B");
  EXPECT_EQ(tw::tool::size_text(1023), "1023 B");
  EXPECT_EQ(tw::tool::size_text(1024), "1 KiB");
  EXPECT_EQ(tw::tool::size_text(1536), "1.5 KiB");
  EXPECT_EQ(tw::tool::size_text(64 << 20), "64 MiB");
  EXPECT_EQ(tw::tool::size_text(int64_t{4} << 30), "4 GiB");
}

TEST(BenchName, TellsOperationsApart) {
  std::vector<std::string> names;
  for (const Collective operation : tw::tool::bench_operations()) names.push_back(tw::tool::bench_name(operation));
  EXPECT_EQ(names, (std::vector<std::string>{"barrier", "broadcast", "allreduce", "reduce", "allgather", "reduce_scatter", "alltoall", "ping_pong"}));
}

}  // namespace
