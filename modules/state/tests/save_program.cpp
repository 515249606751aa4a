// SPDX-License-Identifier: Apache-2.0
// A program to be killed at a random moment. program save DIR writes checkpoints forever; program check DIR reads the newest one and prints its step.
#include <torch/torch.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <tw/comm.hpp>
#include <tw/state.hpp>

namespace {

using tw::NamedShard;

// The contents of the checkpoint of `step` follow from the step.
std::vector<NamedShard> shards_of(const tw::Communicator& comm, int64_t step) {
  const auto value = static_cast<double>(step);
  std::vector<NamedShard> shards{tw::whole("large", torch::full({500, 1000}, value), tw::ShardKind::parameter),
                                 tw::whole("step", torch::full({}, step, torch::kLong), tw::ShardKind::counter)};
  const int64_t begin = int64_t{1000} * comm.rank() / comm.size();
  const int64_t end = int64_t{1000} * (comm.rank() + 1) / comm.size();
  NamedShard rows = tw::whole("rows", torch::full({end - begin, 7}, value + 1, torch::kDouble), tw::ShardKind::optimizer);
  rows.global_shape[0] = 1000;
  rows.offsets[0] = begin;
  rows.on_reshard = tw::OnReshard::shard;
  shards.push_back(rows);
  return shards;
}

[[noreturn]] void save(const tw::Communicator& comm, const std::filesystem::path& directory) {
  const tw::DirectoryLock lock(comm, directory);
  tw::CheckpointStore store(comm, directory);
  std::ofstream(directory / tw::concat("pid.", comm.rank())) << ::getpid();
  const auto steps = store.steps();
  for (int64_t step = steps.empty() ? 1 : steps.back() + 1;; ++step) {
    store.save(step, shards_of(comm, step), "");
    for (int i = 0; i < 10; ++i) store.poll();
    if (comm.rank() == 0 && step % 3 == 0) std::ofstream(directory / "saving") << step;
  }
}

void check(const tw::Communicator& comm, const std::filesystem::path& directory) {
  const tw::CheckpointStore store(comm, directory);
  const auto all = store.steps();
  const auto newest = store.newest_valid();
  if (!newest) throw tw::Error("no checkpoint is left");
  if (*newest != all.back()) throw tw::Error("a checkpoint that looks complete is damaged");
  const auto found = shards_of(comm, 0);
  (void)store.load(*newest, found);
  const auto expected = shards_of(comm, *newest);
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].tensor.equal(expected[i].tensor)) throw tw::Error(found[i].name + " has values of another step");
  }
  if (comm.rank() == 0) std::cout << "whole " << *newest << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  const tw::Communicator comm = mpi.world().dup();
  if (argc != 3) tw::Environment::abort("usage: save_program save|check DIR");
  try {
    if (std::string(argv[1]) == "save") save(comm, argv[2]);
    check(comm, argv[2]);
  } catch (const std::exception& error) {
    mpi.abort(error.what());
  }
}
