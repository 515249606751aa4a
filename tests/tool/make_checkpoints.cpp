// SPDX-License-Identifier: Apache-2.0
// make_checkpoints DIR: checkpoints for the tool's tests, on two ranks: good/ with two steps, and others in which something is wrong.
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <tw/state.hpp>

namespace {

namespace fs = std::filesystem;

std::vector<tw::NamedShard> shards() {
  torch::manual_seed(1);
  tw::NamedShard weight = tw::whole("body.weight", torch::randn({300, 1000}), tw::ShardKind::parameter);
  weight.aliases = {"tied.weight"};
  return {weight, tw::whole("body.mean", torch::ones({3}, torch::kDouble), tw::ShardKind::buffer),
          tw::whole("optimizer/body.weight/exp_avg", torch::zeros({300, 1000}), tw::ShardKind::optimizer)};
}

void save(const tw::Communicator& comm, const fs::path& directory, int64_t steps) {
  tw::CheckpointStore store(comm, directory, {.background = false});
  for (int64_t step = 1; step <= steps; ++step) store.save(step, shards(), R"({"epoch": 7})");
}

void flip(const fs::path& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(at);
  file.put(byte);
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  const tw::Communicator comm = mpi.world().dup();
  if (argc != 2) tw::Environment::abort("usage: make_checkpoints DIR");
  const fs::path directory = argv[1];
  if (comm.rank() == 0) fs::remove_all(directory);
  comm.barrier();
  save(comm, directory / "good", 2);
  for (const char* name : {"flipped", "cut", "index"}) save(comm, directory / name, 1);
  if (comm.rank() != 0) return 0;
  flip(directory / "flipped" / "step_00000001" / "rank_0001.safetensors", 5000);
  fs::resize_file(directory / "cut" / "step_00000001" / "rank_0000.safetensors", 100);
  flip(directory / "index" / "step_00000001" / "index.json", 50);
  fs::create_directories(directory / "empty");
  std::cout << "made" << std::endl;
}
