// SPDX-License-Identifier: Apache-2.0
// bench_state DIRECTORY: one rank, 8e6 float32 parameters with Adam's state (96 MB); files go to a folder in DIRECTORY.
// state/save:  how long save() blocks training, against a memcpy of the bytes into memory that was touched before.
// state/write: from the beginning of save() to its commit, against dd with fsync of the same number of bytes to the same disk. Between rounds,
//              the benchmark waits for the system's write-back.
#include "measure.hpp"

#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <tw/state.hpp>

namespace {

namespace fs = std::filesystem;
using tw::NamedShard;

constexpr int rounds = 15;
constexpr int warm_up = 3;

// An MLP of 1024-1600-1600-1600-800-10, as in data_parallel/step, with Adam's state.
std::vector<NamedShard> make_state() {
  const std::vector<int64_t> widths{1024, 1600, 1600, 1600, 800, 10};
  std::vector<NamedShard> shards;
  for (const char* what : {"parameter", "exp_avg", "exp_avg_sq"}) {
    const auto kind = what == std::string("parameter") ? tw::ShardKind::parameter : tw::ShardKind::optimizer;
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      shards.push_back(tw::whole(tw::concat(what, i, ".weight"), torch::randn({widths[i + 1], widths[i]}), kind));
      shards.push_back(tw::whole(tw::concat(what, i, ".bias"), torch::randn({widths[i + 1]}), kind));
    }
  }
  return shards;
}

double ms_of(const std::function<void()>& call) {
  const tw::Stopwatch watch;
  call();
  return 1e3 * watch.elapsed().count();
}

void print(const std::string& benchmark, const std::string& baseline_name, const std::vector<double>& baseline, const std::vector<double>& ours) {
  const double baseline_ms = tw::benchmark::percentile(baseline, 0.5);
  const double ours_ms = tw::benchmark::percentile(ours, 0.5);
  std::cout << nlohmann::ordered_json{{"benchmark", benchmark},
                                      {"case", "mlp_8e6_adam"},
                                      {"ranks", 1},
                                      {"baseline", baseline_name},
                                      {"baseline_ms", baseline_ms},
                                      {"ours_ms", ours_ms},
                                      {"ratio", baseline_ms / ours_ms},
                                      {"rounds", rounds},
                                      {"spread", (tw::benchmark::percentile(ours, 0.9) - tw::benchmark::percentile(ours, 0.1)) / ours_ms}}
            << std::endl;
}

// Runs the two in turns; the first one alternates.
void take_turns(const std::function<double()>& baseline, const std::function<double()>& ours, std::vector<double>& baseline_ms,
                std::vector<double>& ours_ms) {
  for (int round = -warm_up; round < rounds; ++round) {
    for (const bool second : {false, true}) {
      const bool our_turn = second != (round % 2 != 0);
      const double ms = our_turn ? ours() : baseline();
      if (round >= 0) (our_turn ? ours_ms : baseline_ms).push_back(ms);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  const tw::Communicator comm = mpi.world().dup();
  TW_EXPECTS(argc == 2 && comm.size() == 1, "usage: mpirun -n 1 bench_state DIRECTORY");
  torch::set_num_threads(1);
  const fs::path directory = fs::path(argv[1]) / "bench_state";
  const std::vector<NamedShard> shards = make_state();
  int64_t bytes = 0;
  for (const NamedShard& shard : shards) bytes += shard.tensor.numel() * 4;
  {
    tw::CheckpointStore store(comm, directory, {.keep = 1});
    int64_t step = 0;
    const tw::FlatBuffer source(bytes, torch::kByte);
    const tw::FlatBuffer target(bytes, torch::kByte);
    std::vector<double> copy_ms;
    std::vector<double> save_ms;
    take_turns(
        [&] { return ms_of([&] { std::memcpy(target.storage().data_ptr(), source.storage().const_data_ptr(), static_cast<size_t>(bytes)); }); },
        [&] {
          const double ms = ms_of([&] { store.save(++step, shards, "{}"); });
          store.wait();
          return ms;
        },
        copy_ms, save_ms);
    print("state/save", "memcpy", copy_ms, save_ms);

    const std::string file = (directory / "dd").string();
    const std::string dd = tw::concat("dd if=", file, ".source of=", file, " bs=1M conv=fsync status=none");
    const std::string make_source = tw::concat("head -c ", bytes, " /dev/urandom > ", file, ".source");
    TW_EXPECTS(std::system(make_source.c_str()) == 0, make_source);
    std::vector<double> dd_ms;
    std::vector<double> write_ms;
    take_turns(
        [&] {
          ::sync();
          return ms_of([&] { TW_EXPECTS(std::system(dd.c_str()) == 0, dd); });
        },
        [&] {
          ::sync();
          return ms_of([&] {
            store.save(++step, shards, "{}");
            store.wait();
          });
        },
        dd_ms, write_ms);
    print("state/write", "dd", dd_ms, write_ms);
  }
  fs::remove_all(directory);
}
