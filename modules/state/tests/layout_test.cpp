// SPDX-License-Identifier: Apache-2.0
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tw/base/clock.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>
#include <tw/state/layout.hpp>

namespace layout_test {

using tw::Box;
using tw::OnReshard;
using tw::ShardKind;
using tw::ShardSpec;
using Combine = tw::ShardReads::Combine;
using ByRank = std::vector<std::vector<ShardSpec>>;

ShardSpec slice(const std::string& name, const std::vector<int64_t>& shape, const Box& box, OnReshard on_reshard = OnReshard::shard) {
  return {{name, shape, c10::ScalarType::Float}, {}, box, ShardKind::parameter, on_reshard};
}

ShardSpec whole(const std::string& name, const std::vector<int64_t>& shape, OnReshard on_reshard = OnReshard::replicate) {
  return slice(name, shape, tw::whole_box(shape), on_reshard);
}

std::vector<int64_t> bytes_by_rank(const ByRank& shards, const tw::SavePlan& plan) {
  std::vector<int64_t> bytes;
  for (size_t rank = 0; rank < shards.size(); ++rank) {
    bytes.push_back(0);
    for (const tw::SavePiece& piece : plan.by_rank[rank]) bytes.back() += 4 * piece.box.numel();
    (void)shards;
  }
  return bytes;
}

std::string error_of(const ByRank& shards) {
  return tw::testing::message_of([&] { (void)tw::plan_save(shards); });
}

TEST(SavePlan, WritesWhatAllHoldOnceAndEvenly) {
  const std::vector<ShardSpec> model{whole("w1", {1600, 1024}), whole("b1", {1600}),        whole("w2", {10, 1600}),
                                     whole("scale", {}),        whole("row", {1, 4000000}), whole("empty", {0, 3})};
  int64_t total = 0;
  for (const ShardSpec& shard : model) total += 4 * shard.box.numel();
  for (const size_t ranks : {1U, 2U, 3U, 7U}) {
    const ByRank shards(ranks, model);
    const tw::SavePlan plan = tw::plan_save(shards);
    ASSERT_EQ(plan.tensors.size(), model.size());
    for (size_t i = 0; i < model.size(); ++i) {
      std::vector<Box> boxes;
      for (const auto& piece : plan.tensors[i].pieces) boxes.push_back(piece.box);
      EXPECT_EQ(tw::tiling_problem(model[i].global.shape, boxes), "") << model[i].global.name;
      EXPECT_FALSE(boxes.empty());
    }
    const auto bytes = bytes_by_rank(shards, plan);
    EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}), total);
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    EXPECT_LE(*most - *least, 64000 + 4096) << ranks;  // the largest uncut tensor, and a row of the cut one
  }
}

TEST(SavePlan, FillsUpThoseWhoWriteLeast) {
  // Rank 0 alone has 100 floats, rank 1 has 20; both hold 140 more: 130 each.
  const ByRank shards{{slice("mine", {120}, {{0}, {100}}), whole("both", {140})}, {slice("mine", {120}, {{100}, {20}}), whole("both", {140})}};
  EXPECT_EQ(bytes_by_rank(shards, tw::plan_save(shards, 1)), (std::vector<int64_t>{520, 520}));
  // Too little to even it out: all of it goes to rank 1.
  const ByRank little{{slice("mine", {120}, {{0}, {100}}), whole("both", {40})}, {slice("mine", {120}, {{100}, {20}}), whole("both", {40})}};
  EXPECT_EQ(bytes_by_rank(little, tw::plan_save(little, 1)), (std::vector<int64_t>{400, 240}));
}

TEST(SavePlan, NamesEveryProblem) {
  EXPECT_NE(error_of({{whole("w", {2})}, {whole("w", {3})}}).find("w is parameter float32 [3] replicate on rank 1, but parameter float32 [2]"),
            std::string::npos);
  EXPECT_NE(error_of({{whole("w", {2}), whole("w", {2})}}).find("w appears twice on rank 0"), std::string::npos);
  EXPECT_NE(error_of({{slice("w", {4}, {{0}, {3}})}, {slice("w", {4}, {{2}, {2}})}}).find("slices [0:3] and [2:4] overlap"), std::string::npos);
  EXPECT_NE(error_of({{slice("w", {4}, {{0}, {3}})}}).find("its slices cover 3 of 4 elements"), std::string::npos);
  EXPECT_NE(error_of({{slice("w", {4}, {{2}, {3}})}}).find("[2:5] does not lie in [4]"), std::string::npos);
  EXPECT_NE(
      error_of({{slice("w", {4}, {{0}, {3}}, OnReshard::sum)}}).find("w has OnReshard::sum and must be passed whole, but rank 0 passes [0:3] only"),
      std::string::npos);
  ShardSpec tied = whole("a", {2});
  tied.aliases = {"b"};
  EXPECT_NE(error_of({{tied, whole("b", {2})}}).find("b is also an alias"), std::string::npos);
  ShardSpec stack = whole("s", {2});
  stack.layers = "s.{}";
  EXPECT_EQ(error_of({{stack}}), "nothing thrown");
  EXPECT_NE(error_of({{stack}, {whole("s", {2})}}).find("replicate on rank 1, but parameter float32 [2] replicate, layers s.{} on rank 0"),
            std::string::npos);
  stack.layers = "s";
  EXPECT_NE(error_of({{stack}}).find("the layers of s are called \"s\", without {} for their number"), std::string::npos);
  ShardSpec counter = whole("n", {}, OnReshard::mean);
  counter.global.dtype = c10::ScalarType::Long;
  EXPECT_NE(error_of({{counter}}).find("n: int64 tensors cannot have OnReshard::mean"), std::string::npos);
  const std::string both = error_of({{whole("w", {2}), slice("v", {4}, {{0}, {3}})}, {whole("w", {3}), slice("v", {4}, {{0}, {3}})}});
  EXPECT_NE(both.find("w is"), std::string::npos);
  EXPECT_NE(both.find("v: its"), std::string::npos);
}

/// A grid of `rows` x `columns` slices of a matrix, one per rank; some ranks repeat others.
std::vector<ShardSpec> random_slices(tw::CounterRng& random, const std::vector<int64_t>& shape, size_t ranks) {
  std::vector<ShardSpec> slices;
  const int64_t parts = 1 + random.below(static_cast<uint32_t>(ranks));
  const int64_t dimension = random.below(2);
  for (size_t rank = 0; rank < ranks; ++rank) {
    Box box = tw::whole_box(shape);
    const auto part = static_cast<int64_t>(rank) % parts;
    const int64_t length = shape[static_cast<size_t>(dimension)];
    box.offsets[static_cast<size_t>(dimension)] = length * part / parts;
    box.lengths[static_cast<size_t>(dimension)] = length * (part + 1) / parts - length * part / parts;
    slices.push_back(slice("w", shape, box));
  }
  return slices;
}

// Every element of every slice is read once, from where it was written: brute force over elements.
TEST(LoadPlan, AnyNumberOfRanksReadsWhatAnyOtherWrote) {
  tw::CounterRng random(7);
  for (int round = 0; round < 300; ++round) {
    const std::vector<int64_t> shape{1 + random.below(9), 1 + random.below(9)};
    const size_t savers = 1 + random.below(5);
    const size_t loaders = 1 + random.below(5);
    ByRank save;
    for (ShardSpec& spec : random_slices(random, shape, savers)) save.push_back({std::move(spec)});
    ByRank load;
    for (ShardSpec& spec : random_slices(random, shape, loaders)) load.push_back({std::move(spec)});
    const tw::SavePlan plan = tw::plan_save(save, 1);
    ASSERT_TRUE(tw::load_problems(plan.tensors, static_cast<int64_t>(savers), load).empty());
    std::map<std::pair<int64_t, std::string>, Box> written;
    for (size_t rank = 0; rank < savers; ++rank) {
      for (const tw::SavePiece& piece : plan.by_rank[rank]) written[{static_cast<int64_t>(rank), piece.key}] = piece.box;
    }
    const auto plans = tw::plan_load(plan.tensors, static_cast<int64_t>(savers), load);
    for (size_t rank = 0; rank < loaders; ++rank) {
      const auto& reads = plans.at(rank);
      ASSERT_EQ(reads.size(), 1U);
      EXPECT_EQ(reads[0].combine, Combine::copy);
      const Box& wanted = load[rank][0].box;
      std::set<std::pair<int64_t, int64_t>> filled;
      for (const tw::Read& read : reads[0].reads) {
        const Box& source = written.at({read.file, read.key});
        for (int64_t row = 0; row < read.lengths[0]; ++row) {
          for (int64_t column = 0; column < read.lengths[1]; ++column) {
            const std::pair from{source.offsets[0] + read.from[0] + row, source.offsets[1] + read.from[1] + column};
            const std::pair to{wanted.offsets[0] + read.to[0] + row, wanted.offsets[1] + read.to[1] + column};
            EXPECT_EQ(from, to);
            EXPECT_LT(read.from[0] + row, source.lengths[0]);
            EXPECT_LT(read.from[1] + column, source.lengths[1]);
            EXPECT_TRUE(filled.insert(to).second);
          }
        }
      }
      EXPECT_EQ(static_cast<int64_t>(filled.size()), wanted.numel());
    }
  }
}

/// How `rank` fills its first shard.
tw::ShardReads first_of(const std::vector<tw::StoredTensor>& stored, int64_t stored_ranks, const ByRank& by_rank, int64_t rank) {
  return tw::plan_load(stored, stored_ranks, by_rank).at(static_cast<size_t>(rank)).at(0);
}

std::vector<int64_t> files_of(const tw::ShardReads& reads) {
  std::vector<int64_t> files;
  for (const tw::Read& read : reads.reads) files.push_back(read.file);
  return files;
}

/// Cuts boxes of up to three dimensions anywhere, again and again.
std::vector<Box> random_tiling(tw::CounterRng& random, const std::vector<int64_t>& shape) {
  std::vector<Box> boxes{tw::whole_box(shape)};
  for (uint32_t cuts = random.below(12); cuts > 0; --cuts) {
    const size_t which = random.below(static_cast<uint32_t>(boxes.size()));
    const size_t along = random.below(static_cast<uint32_t>(shape.size()));
    Box& first = boxes[which];
    if (first.lengths[along] < 2) continue;
    Box second = first;
    first.lengths[along] = 1 + random.below(static_cast<uint32_t>(first.lengths[along] - 1));
    second.offsets[along] += first.lengths[along];
    second.lengths[along] -= first.lengths[along];
    boxes.push_back(second);
  }
  return boxes;
}

bool overlap(const Box& a, const Box& b) {
  for (size_t i = 0; i < a.offsets.size(); ++i) {
    if (a.offsets[i] + a.lengths[i] <= b.offsets[i] || b.offsets[i] + b.lengths[i] <= a.offsets[i]) return false;
  }
  return a.numel() > 0 && b.numel() > 0;
}

// Compared with all pairs, also where a box was moved or repeated.
TEST(Tiling, IsWhatPairsSay) {
  tw::CounterRng random(8);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> shape(1 + random.below(3));
    for (int64_t& length : shape) length = 1 + random.below(7);
    std::vector<Box> boxes = random_tiling(random, shape);
    Box& one = boxes[random.below(static_cast<uint32_t>(boxes.size()))];
    const size_t along = random.below(static_cast<uint32_t>(shape.size()));
    if (round % 3 == 1) one.offsets[along] = random.below(static_cast<uint32_t>(1 + shape[along] - one.lengths[along]));
    if (round % 3 == 2) boxes.push_back(one);
    int64_t covered = 0;
    bool some_overlap = false;
    for (size_t i = 0; i < boxes.size(); ++i) {
      covered += boxes[i].numel();
      for (size_t j = 0; j < i; ++j) some_overlap = some_overlap || overlap(boxes[i], boxes[j]);
    }
    const std::string why = tw::tiling_problem(shape, boxes);
    EXPECT_EQ(why.find("overlap") != std::string::npos, some_overlap) << why;
    EXPECT_EQ(why.empty(), !some_overlap && covered == tw::whole_box(shape).numel()) << why;
  }
}

// Any tiling is read back from any other, by ranks that have several boxes: compared with all pairs of boxes.
TEST(LoadPlan, FindsThePiecesThatPairsFind) {
  tw::CounterRng random(9);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> shape(1 + random.below(3));
    for (int64_t& length : shape) length = 1 + random.below(9);
    const auto dealt = [&](size_t ranks) {
      ByRank by_rank(ranks);
      for (const Box& box : random_tiling(random, shape)) by_rank[random.below(static_cast<uint32_t>(ranks))].push_back(slice("w", shape, box));
      return by_rank;
    };
    const auto stored = tw::plan_save(dealt(4), 1).tensors;
    const ByRank load = dealt(3);
    const auto plans = tw::plan_load(stored, 4, load);
    for (size_t rank = 0; rank < load.size(); ++rank) {
      for (size_t i = 0; i < load[rank].size(); ++i) {
        std::vector<std::pair<int64_t, std::string>> expected;
        for (const tw::StoredPiece& piece : stored[0].pieces) {
          if (overlap(piece.box, load[rank][i].box)) expected.emplace_back(piece.file, piece.key);
        }
        std::vector<std::pair<int64_t, std::string>> found;
        for (const tw::Read& read : plans[rank][i].reads) found.emplace_back(read.file, read.key);
        EXPECT_EQ(found, expected);
      }
    }
  }
}

// A large job: 65,536 ranks save a part each of a tensor, and half as many load it: 4 * 10^9 pairs of boxes.
TEST(LoadPlan, OfALargeJobIsMadeInTime) {
  const auto cut = [](int64_t ranks) {
    ByRank by_rank(static_cast<size_t>(ranks));
    for (int64_t rank = 0; rank < ranks; ++rank) {
      by_rank[static_cast<size_t>(rank)].push_back(slice("w", {131072, 4}, {{131072 / ranks * rank, 0}, {131072 / ranks, 4}}));
    }
    return by_rank;
  };
  const tw::Stopwatch watch;
  const auto stored = tw::plan_save(cut(65536)).tensors;
  const ByRank loading = cut(32768);
  EXPECT_TRUE(tw::load_problems(stored, 65536, loading).empty());
  EXPECT_EQ(files_of(tw::plan_load(stored, 65536, loading).at(32767).at(0)), (std::vector<int64_t>{65534, 65535}));
  EXPECT_LT(watch.elapsed().count(), 15) << "seconds; one is usual";
}

TEST(LoadPlan, DealsWithWhatEachRankHasOfItsOwn) {
  for (const auto on_reshard : {OnReshard::sum, OnReshard::mean, OnReshard::drop}) {
    const ByRank three(3, {whole("own", {4}, on_reshard)});
    const ByRank two(2, {whole("own", {4}, on_reshard)});
    const ByRank five(5, {whole("own", {4}, on_reshard)});
    const auto stored = tw::plan_save(three).tensors;
    for (int64_t rank = 0; rank < 3; ++rank) {  // same number of ranks: each reads its own
      const auto reads = first_of(stored, 3, three, rank);
      EXPECT_EQ(reads.combine, Combine::copy);
      EXPECT_EQ(files_of(reads), (std::vector<int64_t>{rank}));
    }
    const auto first = first_of(stored, 3, two, 0);
    const auto second = first_of(stored, 3, two, 1);
    const auto fifth = first_of(stored, 3, five, 4);
    if (on_reshard == OnReshard::sum) {
      EXPECT_EQ(files_of(first), (std::vector<int64_t>{0, 2}));
      EXPECT_EQ(files_of(second), (std::vector<int64_t>{1}));
      EXPECT_EQ(fifth.combine, Combine::sum);
      EXPECT_TRUE(fifth.reads.empty());
    } else if (on_reshard == OnReshard::mean) {
      EXPECT_EQ(files_of(second), (std::vector<int64_t>{0, 1, 2}));
      EXPECT_EQ(files_of(fifth), (std::vector<int64_t>{0, 1, 2}));
      EXPECT_EQ(fifth.combine, Combine::mean);
    } else {
      EXPECT_EQ(first.combine, Combine::keep);
    }
  }
}

// Like momenta of a rank that has not made an update yet.
TEST(LoadPlan, GivesBackItsOwnAlsoWhereAnotherRankHadNone) {
  for (const auto on_reshard : {OnReshard::sum, OnReshard::mean, OnReshard::drop}) {
    const std::vector<ShardSpec> own{whole("own", {4}, on_reshard)};
    const ByRank three(3, own);
    const auto stored = tw::plan_save({own, {}, own}).tensors;
    for (const int64_t rank : {0, 2}) {
      const auto reads = first_of(stored, 3, three, rank);
      EXPECT_EQ(reads.combine, Combine::copy);
      EXPECT_EQ(files_of(reads), (std::vector<int64_t>{rank}));
    }
    const auto without = first_of(stored, 3, three, 1);
    EXPECT_EQ(without.combine, on_reshard == OnReshard::sum ? Combine::sum : on_reshard == OnReshard::mean ? Combine::mean : Combine::keep);
    EXPECT_EQ(files_of(without), on_reshard == OnReshard::mean ? (std::vector<int64_t>{0, 2}) : std::vector<int64_t>{});
    // With other ranks, nothing of a sum is lost, even if a rank that had some has none now.
    const auto first = first_of(stored, 3, ByRank(2, own), 0);
    const auto second = first_of(stored, 3, {own, own, {}}, 1);
    if (on_reshard == OnReshard::sum) {
      EXPECT_EQ(files_of(first), (std::vector<int64_t>{0}));
      EXPECT_EQ(files_of(second), (std::vector<int64_t>{2}));
    } else if (on_reshard == OnReshard::mean) {
      EXPECT_EQ(files_of(first), (std::vector<int64_t>{0, 2}));
      EXPECT_EQ(files_of(second), (std::vector<int64_t>{0, 2}));
    }
  }
}

TEST(LoadPlan, GivesReplicasTheMeanAlsoOnAsManyRanks) {
  const auto stored = tw::plan_save(ByRank(2, {whole("w", {4}, OnReshard::mean)})).tensors;
  const auto reads = first_of(stored, 2, ByRank(2, {whole("w", {4}, OnReshard::replicate)}), 1);
  EXPECT_EQ(reads.combine, Combine::mean);
  EXPECT_EQ(files_of(reads), (std::vector<int64_t>{0, 1}));
}

TEST(Misfits, NamesWhatIsMissingExtraOrMisshapen) {
  ShardSpec momentum = whole("optimizer/w/momentum_buffer", {2});
  momentum.kind = ShardKind::optimizer;
  const auto stored = tw::plan_save({{whole("w", {2}), whole("v", {3}), whole("u", {4}), momentum}}).tensors;
  const ByRank loading(2, {whole("w", {2}), whole("v", {3, 1}), whole("t", {5})});
  EXPECT_EQ(tw::load_problems(stored, 1, loading), (std::vector<std::string>{
                                                       "different shape or dtype: v float32 [3, 1] is float32 [3] in the checkpoint",
                                                       "missing in the checkpoint: parameter t float32 [5]",
                                                       "extra in the checkpoint: parameter u float32 [4]",
                                                       "extra in the checkpoint: optimizer state optimizer/w/momentum_buffer float32 [2]",
                                                   }));
}

TEST(Misfits, KnowsAliases) {
  ShardSpec tied = whole("a", {2});
  tied.aliases = {"b"};
  const auto stored = tw::plan_save({{tied}}).tensors;
  ShardSpec other_order = whole("b", {2});
  other_order.aliases = {"a"};
  EXPECT_TRUE(tw::load_problems(stored, 1, {{other_order}}).empty());
  EXPECT_TRUE(tw::load_problems(stored, 1, {{whole("a", {2}), whole("b", {2})}}).empty());  // no longer tied
  const auto apart = tw::plan_save({{whole("a", {2}), whole("b", {2})}}).tensors;
  EXPECT_EQ(tw::load_problems(apart, 1, {{tied}}),
            (std::vector<std::string>{"a is one tensor here, but its names belong to several tensors in the checkpoint"}));
}

TEST(Misfits, ForgivesWhatIsDroppedOnlyWhereRanksChange) {
  const auto stored = tw::plan_save(ByRank(2, {whole("w", {2}), whole("rng", {2}, OnReshard::drop)})).tensors;
  EXPECT_TRUE(tw::load_problems(stored, 2, ByRank(3, {whole("w", {2})})).empty());
  EXPECT_EQ(tw::load_problems(stored, 2, ByRank(2, {whole("w", {2})})).size(), 1U);
}

}  // namespace layout_test
