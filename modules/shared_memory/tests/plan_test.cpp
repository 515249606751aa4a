// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tw/shared_memory/plan.hpp>
#include <utility>
#include <vector>

#include "symbolic_node.hpp"

namespace plan_test {

using tw::Call;
using tw::Collective;
using namespace tw::shared_memory;
using tw::shared_memory::testing::Request;
using tw::shared_memory::testing::SymbolicNode;

Call call_of(Collective collective, int64_t count, int peer = -1) {
  Call call;
  call.collective = collective;
  call.count = count;
  call.peer = peer;
  return call;
}

// All collectives of `count` elements, or of `count` for each rank. Broadcasts are always in place; so are direct all-reduces.
std::vector<Request> staged_requests(int ranks, int64_t count) {
  std::vector<Request> requests{{call_of(Collective::barrier, 0)},
                                {call_of(Collective::allreduce, count), /*in_place=*/true},
                                {call_of(Collective::allreduce, count), /*in_place=*/false},
                                {call_of(Collective::allgather, count)},
                                {call_of(Collective::reduce_scatter, count * ranks)}};
  for (const int root : std::set<int>{0, ranks / 2, ranks - 1}) {
    requests.push_back({call_of(Collective::broadcast, count, root), /*in_place=*/true});
    requests.push_back({call_of(Collective::reduce, count, root), /*in_place=*/root == 0});
  }
  return requests;
}

std::vector<Request> direct_requests(int ranks, int64_t count, const std::vector<bool>& in_window) {
  std::vector<Request> requests{{call_of(Collective::allreduce, count), /*in_place=*/true, in_window},
                                {call_of(Collective::allgather, count), /*in_place=*/false, in_window},
                                {call_of(Collective::reduce_scatter, count * ranks), /*in_place=*/false, in_window}};
  for (const int root : std::set<int>{0, ranks / 2, ranks - 1}) {
    requests.push_back({call_of(Collective::broadcast, count, root), /*in_place=*/true, in_window});
  }
  return requests;
}

// From the smallest slots that a channel allows (64 bytes per rank, with parts aligned to 128) to slots that hold everything.
std::vector<PlanOptions> options_for(int ranks) {
  return {{.slot_elements = ranks, .flat_elements = 0, .alignment = 1},
          {.slot_elements = 2 * ranks, .flat_elements = 0, .alignment = 4},
          {.slot_elements = 2 * ranks + 1, .flat_elements = 3, .alignment = 2},
          {.slot_elements = 256, .flat_elements = 5, .alignment = 8}};
}

// SymbolicNode reports errors: an element not reduced exactly once over all ranks in rank order, a write to another rank's tensor, an access past the
// end of a slot or tensor, a changed input.
void run(int ranks, const PlanOptions& options, const std::vector<Request>& requests) {
  for (const Request& request : requests) {
    for (const bool last_rank_first : {false, true}) {
      if (ranks > 8 && last_rank_first == (ranks % 2 == 0)) continue;  // for speed
      SymbolicNode node(ranks, options, request.call.collective == Collective::allgather ? request.call.count * ranks : request.call.count);
      node.run(request, last_rank_first);
    }
  }
}

std::set<int64_t> counts_for(int ranks) { return {0, 1, 7, ranks, 2 * ranks + 1}; }

TEST(Plan, StagedCollectivesEndRight) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    for (const PlanOptions& options : options_for(ranks)) {
      for (const int64_t count : counts_for(ranks)) {
        // Cases that grow with the square of the ranks use few elements when there are many ranks.
        if (ranks > 8 && count > 7 && ranks % 16 != 0) continue;
        run(ranks, options, staged_requests(ranks, count));
      }
    }
  }
}

TEST(Plan, FlatAllreduceEndsRight) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    for (const int64_t count : {0, 1, 7, 8, 9, 12, 17}) {
      // Flat up to 8 elements; up to 12, although a slot holds 8; never.
      for (const int64_t flat : {8, 12, 0}) {
        run(ranks, {.slot_elements = std::max<int64_t>(ranks, 8), .flat_elements = flat, .alignment = 2},
            {{call_of(Collective::allreduce, count), true}, {call_of(Collective::allreduce, count), false}});
      }
    }
  }
}

TEST(Plan, DirectCollectivesEndRight) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    for (const int64_t alignment : {1, 4}) {
      for (const int64_t count : {1, 7, 12}) {
        run(ranks, {.slot_elements = ranks, .alignment = alignment},
            direct_requests(ranks, count, std::vector<bool>(static_cast<size_t>(ranks), true)));
      }
    }
  }
}

TEST(Plan, OneTensorOutsideTheWindowMakesAllRanksGoThroughTheSlots) {
  for (const int ranks : {2, 3, 5, 16}) {
    for (const int odd_one : {0, ranks - 1}) {
      std::vector<bool> in_window(static_cast<size_t>(ranks), true);
      in_window[static_cast<size_t>(odd_one)] = false;
      for (const PlanOptions& options : options_for(ranks)) run(ranks, options, direct_requests(ranks, 9, in_window));
    }
  }
}

TEST(Plan, SequencesEndRight) {
  for (const int ranks : {1, 2, 3, 7}) {
    for (const PlanOptions& options : options_for(ranks)) {
      SymbolicNode node(ranks, options, 20 * ranks);
      for (const int64_t count : {19, 1, 20}) {
        for (const Request& request : staged_requests(ranks, count)) node.run(request, count == 1);
        for (const Request& request : direct_requests(ranks, count, std::vector<bool>(static_cast<size_t>(ranks), true))) node.run(request);
      }
    }
  }
}

int posts_of(const std::vector<Step>& steps) {
  return static_cast<int>(
      std::count_if(steps.begin(), steps.end(), [](const Step& step) { return step.kind == Step::Kind::arrive || step.kind == Step::Kind::post; }));
}

TEST(Plan, AllRanksPostEquallyOften) {
  for (const int ranks : {1, 2, 3, 8, 64}) {
    for (const PlanOptions& options : options_for(ranks)) {
      for (const int64_t count : counts_for(ranks)) {
        std::vector<std::pair<Call, Mode>> cases;
        for (const Request& request : staged_requests(ranks, count)) cases.emplace_back(request.call, Mode::staged);
        for (const Request& request : direct_requests(ranks, count, {})) cases.emplace_back(request.call, Mode::direct);
        for (const auto& [call, mode] : cases) {
          Plan first(call, mode, 0, ranks, options);
          for (int rank = 1; rank < ranks; ++rank) {
            Plan other(call, mode, rank, ranks, options);
            ASSERT_EQ(other.rounds(), first.rounds()) << call.describe();
            for (int64_t round = 0; round < first.rounds(); ++round) {
              EXPECT_EQ(posts_of(other.round(round)), posts_of(first.round(round))) << call.describe() << ", rank " << rank << ", round " << round;
            }
          }
        }
      }
    }
  }
}

TEST(PartOf, CoversTheWholeInOrderAndEvenly) {
  for (const int parts : {1, 2, 3, 8, 64}) {
    for (const int64_t alignment : {1, 2, 16}) {
      for (const int64_t count : {0, 1, 15, 16, 17, 1000}) {
        const Range whole{48, 48 + count};
        const int64_t units = (count + alignment - 1) / alignment;
        int64_t end = whole.begin;
        for (int part = 0; part < parts; ++part) {
          const Range range = part_of(whole, part, parts, alignment);
          EXPECT_EQ(range.begin, end);
          EXPECT_GE(range.count(), 0);
          EXPECT_LE(range.count(), (units + parts - 1) / parts * alignment);
          if (range.count() > 0) {
            EXPECT_EQ((range.begin - whole.begin) % alignment, 0);
          }
          end = range.end;
        }
        EXPECT_EQ(end, whole.end);
      }
    }
  }
}

}  // namespace plan_test
