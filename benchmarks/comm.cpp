// SPDX-License-Identifier: Apache-2.0
// Our collectives against MPI's, which are called directly on the same data in ordinary memory. Data is fresh: every rank rewrites its tensor before
// each call. Below 4 KiB calls follow each other directly.
#include "measure.hpp"

#include <mpi.h>
#include <torch/torch.h>

#include <tw/comm.hpp>
#include <tw/mpi/interop.hpp>

namespace {

std::string size_name(int64_t bytes) {
  if (bytes >= 1 << 20) return tw::concat(bytes >> 20, "MiB");
  return bytes >= 1 << 10 ? tw::concat(bytes >> 10, "KiB") : tw::concat(bytes, "B");
}

/// The calls of both contestants, on `floats` float32 values.
struct Contestants {
  std::string benchmark;
  std::function<std::function<void()>(const at::Tensor& data)> ours;
  std::function<std::function<void()>(const at::Tensor& data)> mpi;
  bool shared = false;  // our data is in shared memory
};

void run(const tw::benchmark::Contest& contest, const Contestants& contestants, int64_t bytes) {
  const int64_t floats = bytes / 4;
  const bool shared = contest.is_ours() && contestants.shared;
  const at::Tensor data = shared ? tw::shared_tensor(contest.comm(), {floats}, at::kFloat) : torch::zeros({floats});
  tw::benchmark::Case of{.benchmark = contestants.benchmark, .name = size_name(bytes), .baseline = "mpi"};
  of.steps = static_cast<int>(std::clamp<int64_t>((int64_t{16} << 20) / bytes, 2, bytes < 4096 ? 1000 : 200));
  of.step = contest.is_ours() ? contestants.ours(data) : contestants.mpi(data);
  if (bytes >= 4096) {
    of.prepare = [data, &contest] {
      data.fill_(1);
      tw::barrier(contest.comm());
    };
  }
  tw::benchmark::compare(contest, of);
}

// Measures the collectives named `only`; all if it is empty.
void measure_all(const tw::benchmark::Contest& contest, const std::string& only) {
  const tw::Communicator& comm = contest.comm();
  const MPI_Comm native = tw::native_handle(comm);
  const int ranks = comm.size();

  const auto ours_allreduce = [&](const at::Tensor& data) { return [&, data] { tw::allreduce(comm, data, tw::ReduceOp::sum); }; };
  const auto mpi_allreduce = [&](const at::Tensor& data) {
    return [=] { MPI_Allreduce(MPI_IN_PLACE, data.data_ptr(), static_cast<int>(data.numel()), MPI_FLOAT, MPI_SUM, native); };
  };
  const Contestants allreduce{"comm/allreduce", ours_allreduce, mpi_allreduce};
  const Contestants allreduce_shared{"comm/allreduce_shared", ours_allreduce, mpi_allreduce, true};
  const Contestants reduce_scatter_shared{
      "comm/reduce_scatter_shared",
      [&](const at::Tensor& data) {
        return [&, data, mine = torch::empty({data.numel() / ranks})] { tw::reduce_scatter(comm, data, mine, tw::ReduceOp::sum); };
      },
      [&](const at::Tensor& data) {
        return [=, mine = torch::empty({data.numel() / ranks})] {
          MPI_Reduce_scatter_block(data.data_ptr(), mine.data_ptr(), static_cast<int>(mine.numel()), MPI_FLOAT, MPI_SUM, native);
        };
      },
      true};
  const Contestants broadcast_shared{
      "comm/broadcast_shared", [&](const at::Tensor& data) { return [&, data] { tw::broadcast(comm, data, tw::Rank(0)); }; },
      [&](const at::Tensor& data) { return [=] { MPI_Bcast(data.data_ptr(), static_cast<int>(data.numel()), MPI_FLOAT, 0, native); }; }, true};
  const Contestants allgather_shared{
      "comm/allgather_shared",
      [&](const at::Tensor& data) { return [&, data, all = torch::empty({ranks, data.numel()})] { tw::allgather(comm, data, all); }; },
      [&](const at::Tensor& data) {
        return [=, all = torch::empty({ranks, data.numel()})] {
          MPI_Allgather(data.data_ptr(), static_cast<int>(data.numel()), MPI_FLOAT, all.data_ptr(), static_cast<int>(data.numel()), MPI_FLOAT,
                        native);
        };
      },
      true};

  for (const Contestants* contestants : {&allreduce, &allreduce_shared, &reduce_scatter_shared, &broadcast_shared, &allgather_shared}) {
    if (!only.empty() && contestants->benchmark != only) continue;
    for (int64_t bytes = contestants->shared ? 4096 : 8; bytes <= int64_t{64} << 20; bytes *= contestants->shared || bytes >= 1024 ? 4 : 2) {
      run(contest, *contestants, bytes);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return tw::benchmark::run(argc, argv, [&](const auto& contest) { measure_all(contest, argc > 1 ? argv[1] : ""); });
}
