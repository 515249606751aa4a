// SPDX-License-Identifier: Apache-2.0
#include "message_of.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <tw/algorithms/selection.hpp>
#include <tw/base/concat.hpp>

namespace selection_test {

using tw::Collective;
using namespace tw::algorithms;

const Cluster two_by_two{.nodes = 2, .ranks_per_node = 2};
const std::vector<std::string> backends{"shared_memory", "mpi",         "hierarchical", "ring", "recursive_doubling", "circulant", "tree",
                                        "chain",         "double_tree", "pairwise",     "bruck"};

std::string backend_for(const Selection& selection, Collective collective, int64_t bytes) {
  const Choice* choice = selection.choice(collective, bytes);
  return choice == nullptr ? "none" : choice->backend;
}

TEST(Selection, TakesMpiForWhatIsSmallAndTheCheapestForTheRest) {
  const Selection selection = Selection::by_price(two_by_two);
  EXPECT_EQ(backend_for(selection, Collective::allreduce, 8), "mpi");
  EXPECT_EQ(backend_for(selection, Collective::allreduce, 16 << 20), "hierarchical");
  EXPECT_EQ(backend_for(selection, Collective::allreduce, int64_t{1} << 50), "hierarchical");
  EXPECT_EQ(backend_for(selection, Collective::barrier, 0), "none");
  for (const Choice& choice : selection.choices()) EXPECT_FALSE(choice.reason.empty());
  const Selection on_one_node = Selection::by_price({.nodes = 1, .ranks_per_node = 4});
  EXPECT_EQ(backend_for(on_one_node, Collective::allreduce, 8), "shared_memory");
  EXPECT_EQ(backend_for(on_one_node, Collective::alltoall, 8), "mpi");
}

TEST(Selection, LeavesToMpiWhatIsLatencyButGatherings) {
  for (const int nodes : {2, 4, 1000}) {
    const Selection selection = Selection::by_price({.nodes = nodes, .ranks_per_node = 1});
    EXPECT_EQ(backend_for(selection, Collective::allreduce, 256), "mpi");
    EXPECT_EQ(backend_for(selection, Collective::reduce_scatter, 256), "mpi");
    EXPECT_NE(backend_for(selection, Collective::allgather, 256), "mpi");
  }
}

TEST(Selection, OfAFasterNetworkIsAnother) {
  Cluster fast = two_by_two;
  fast.between = {std::chrono::duration<double>(2e-6), 25e9};  // 200 Gbit/s
  EXPECT_EQ(backend_for(Selection::by_price(fast), Collective::allreduce, 16 << 10), "mpi");
  EXPECT_EQ(backend_for(Selection::by_price(two_by_two), Collective::allreduce, 16 << 10), "hierarchical");
}

TEST(Selection, TakesTheDoubleTreeForWhatIsLargeOnManyNodes) {
  const Selection selection = Selection::by_price({.nodes = 1000, .ranks_per_node = 1});
  EXPECT_EQ(backend_for(selection, Collective::broadcast, 16 << 20), "double_tree");
  EXPECT_EQ(backend_for(selection, Collective::reduce, 16 << 20), "double_tree");
  EXPECT_EQ(backend_for(selection, Collective::allreduce, 16 << 20), "double_tree");
  EXPECT_EQ(backend_for(selection, Collective::broadcast, 32 << 10), "double_tree");  // a third of it is latency
  EXPECT_EQ(backend_for(selection, Collective::broadcast, 4 << 10), "mpi");
  EXPECT_EQ(backend_for(selection, Collective::allreduce, 256 << 10), "circulant");
  EXPECT_EQ(backend_for(selection, Collective::allreduce, 8 << 20), "double_tree");  // of the price of the ring, the next one, a third is
}

/// A file that is removed after the test.
struct File {
  explicit File(const std::string& text) { std::ofstream(path) << text; }
  ~File() { std::filesystem::remove(path); }
  const std::filesystem::path path = std::filesystem::temp_directory_path() / tw::concat("tw_selection_", getpid(), ".toml");
};

TEST(Selection, ComesBackFromItsFile) {
  std::vector<Choice> choices = Selection::by_price(two_by_two).choices();
  choices.front().reason = "as \"somebody\" said in \\ \nand on the next line,\t\r\x01\x7f";
  const Selection selection(choices);
  const File file(selection.to_toml(two_by_two));
  EXPECT_EQ(Selection::from_file(file.path, two_by_two, backends).choices(), selection.choices());
}

TEST(Selection, SaysWhereAFileIsWrong) {
  const auto refusal = [](const std::string& text) {
    const File file(text);
    return tw::testing::message_of([&] { (void)Selection::from_file(file.path, two_by_two, backends); });
  };
  const std::string head = "nodes = 2\nranks_per_node = 2\n";
  const auto expect = [&](const std::string& text, const std::string& part) {
    const std::string message = refusal(text);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect("nodes = 3\nranks_per_node = 2\n", ":1: nodes is 2 in this job, but 3 in the file");
  expect("nodes = 2\n", ":1: ranks_per_node is 2 in this job, but missing or not an integer in the file");
  expect(head + "[[choice]]\noperation = \"allreduce\"\nbackend = \"rings\"\n", ":3: unknown backend 'rings'; did you mean 'ring'?");
  expect(head + "[[choice]]\noperation = \"allreduced\"\nbackend = \"ring\"\n",
         ":3: operation is 'allreduced', but must be one of broadcast, allreduce");
  expect(head + "[[choice]]\noperation = \"allreduce\"\nbackends = \"ring\"\n", ":5: unknown key 'backends'; did you mean 'backend'?");
  const std::string ring = "[[choice]]\noperation = \"allreduce\"\nbackend = \"ring\"\nup_to_bytes = 5\n";
  expect(head + ring + ring, ":7: choices for one operation must ascend by size");
  expect(head + ring + "[[choice]]\noperation = \"reduce\"\nbackend = \"tree\"\n" + ring, ":10: move this choice to the others for allreduce");
  expect(head + "[choice]\noperation = \"allreduce\"\n", ":3: choices must be tables, each under [[choice]]");
  expect(head + "[[choice\n", ":3: ");
  expect(head + ring, "nothing thrown");
}

TEST(Selection, IsReadable) {
  const std::string text = Selection({{Collective::allreduce, 16384, "mpi", "why not"},
                                      {Collective::allreduce, std::numeric_limits<int64_t>::max(), "ring", "it is long"}})
                               .to_text();
  EXPECT_EQ(text, "allreduce       up to 16 KiB    mpi                 why not\nallreduce       any size        ring                it is long\n");
}

}  // namespace selection_test
