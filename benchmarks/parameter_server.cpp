// SPDX-License-Identifier: Apache-2.0
// parameter_server/pull and push: one rank reads from, or adds to, the tensor on another rank of its node. The baselines are MPI_Get and
// MPI_Accumulate on memory of MPI_Win_allocate ("mpi_rma"), and a memcpy.
// parameter_server/requests: pushes of 1 KiB by messages, 16 in flight, against the same number of messages of 1 KiB, each answered by one of 8 bytes
// ("isend_irecv").
// parameter_server/two_hosts, with the arguments "two_hosts RATE": pushes and pulls between two hosts, against messages with the same number of
// bytes; for two ranks.
// parameter_server/slow_rank, with "slow_rank": training steps of three ranks, one of which sleeps for four step lengths in each step, against
// reduced gradients ("all_reduce").
#include "measure.hpp"

#include <mpi.h>
#include <torch/torch.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string_view>
#include <tw/comm.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/mpi/interop.hpp>
#include <tw/parameter_server.hpp>

#include "trainees.hpp"

namespace {

using namespace tw::parameter_server;
using tw::benchmark::Case;
using tw::benchmark::Contest;

std::string size_name(int64_t bytes) { return bytes >= 1 << 20 ? tw::concat(bytes >> 20, "MiB") : tw::concat(bytes >> 10, "KiB"); }

/// Memory of rank 1 that rank 0 can access.
class Window {
 public:
  Window(const tw::Communicator& comm, int64_t floats) {
    float* memory = nullptr;
    MPI_Win_allocate(comm.rank() == 1 ? floats * 4 : 0, sizeof(float), MPI_INFO_NULL, tw::native_handle(comm), &memory, &window_);
    if (comm.rank() == 1) std::fill(memory, memory + floats, 0.0F);
    MPI_Win_fence(0, window_);
    if (comm.rank() == 0) MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window_);
    owner_ = comm.rank() == 0;
  }
  ~Window() {
    if (owner_) MPI_Win_unlock(1, window_);
    MPI_Win_free(&window_);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  void get(const at::Tensor& out) const {
    const auto count = static_cast<int>(out.numel());
    MPI_Get(out.data_ptr(), count, MPI_FLOAT, 1, 0, count, MPI_FLOAT, window_);
    MPI_Win_flush(1, window_);
  }
  void add(const at::Tensor& pushed) const {
    const auto count = static_cast<int>(pushed.numel());
    MPI_Accumulate(pushed.data_ptr(), count, MPI_FLOAT, 1, 0, count, MPI_FLOAT, MPI_SUM, window_);
    MPI_Win_flush(1, window_);
  }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  bool owner_ = false;
};

void measure_bandwidth(const Contest& contest, const std::string& what, int64_t bytes) {
  const tw::Communicator& comm = contest.comm();
  const int64_t floats = bytes / 4;
  std::optional<Window> window;
  std::optional<ShardedTensor> centre;
  if (contest.is_ours()) {
    centre.emplace(comm, torch::zeros({floats}), ShardedTensorOptions{.servers = {1}});
  } else {
    window.emplace(comm, floats);
  }
  const at::Tensor local = torch::ones({floats});
  Case of{.benchmark = "parameter_server/" + what, .name = size_name(bytes), .baseline = "mpi_rma"};
  of.rounds = 15;
  of.steps = static_cast<int>(std::clamp<int64_t>((int64_t{64} << 20) / bytes, 4, 500));
  of.step = [&] {
    if (comm.rank() != 0) return;
    if (centre) {
      (what == "pull" ? centre->pull(local) : centre->push(local)).wait();
    } else if (what == "pull") {
      window->get(local);
    } else {
      window->add(local);
    }
  };
  tw::benchmark::compare(contest, of);
}

/// Pulls, and pushes that only copy, against a memcpy from or to memory that both ranks have mapped.
void measure_copies(const Contest& contest, const std::string& what, int64_t bytes) {
  const tw::Communicator& comm = contest.comm();
  const int64_t floats = bytes / 4;
  const at::Tensor mapped = tw::node_tensor(comm, {floats}, at::kFloat);
  if (comm.rank() == 1) mapped.zero_();  // places the memory where a server's would be
  std::optional<ShardedTensor> centre;
  if (contest.is_ours()) centre.emplace(comm, torch::zeros({floats}), ShardedTensorOptions{.servers = {1}});
  const at::Tensor local = torch::ones({floats});
  Case of{.benchmark = "parameter_server/" + what, .name = size_name(bytes), .baseline = "memcpy"};
  of.rounds = 15;
  of.steps = static_cast<int>(std::clamp<int64_t>((int64_t{64} << 20) / bytes, 4, 500));
  of.step = [&] {
    if (comm.rank() != 0) return;
    if (centre) {
      (what == "pull" ? centre->pull(local) : centre->push(local, "copy")).wait();
    } else if (what == "pull") {
      std::memcpy(local.data_ptr(), mapped.data_ptr(), static_cast<size_t>(bytes));
    } else {
      std::memcpy(mapped.data_ptr(), local.data_ptr(), static_cast<size_t>(bytes));
    }
  };
  tw::benchmark::compare(contest, of);
}

/// Sends `requests` messages of 1 KiB to rank 1, `depth` in flight; each is answered.
void exchange(const tw::Communicator& comm, int64_t requests) {
  constexpr size_t depth = 16;
  const MPI_Comm native = tw::native_handle(comm);
  const int other = 1 - comm.rank();
  std::array<std::array<float, 256>, depth> payloads{};
  std::array<int64_t, depth> answers{};
  std::array<MPI_Request, depth> first{};
  std::array<MPI_Request, depth> second{};
  first.fill(MPI_REQUEST_NULL);
  second.fill(MPI_REQUEST_NULL);
  if (comm.rank() == 0) {
    for (int64_t i = 0; i < requests; ++i) {
      const auto slot = static_cast<size_t>(i) % depth;
      MPI_Wait(&first[slot], MPI_STATUS_IGNORE);
      MPI_Wait(&second[slot], MPI_STATUS_IGNORE);
      MPI_Irecv(&answers[slot], 8, MPI_BYTE, other, 1, native, &second[slot]);
      MPI_Isend(payloads[slot].data(), 1024, MPI_BYTE, other, 0, native, &first[slot]);
    }
  } else {
    for (size_t slot = 0; slot < depth; ++slot) MPI_Irecv(payloads[slot].data(), 1024, MPI_BYTE, other, 0, native, &first[slot]);
    for (int64_t i = 0; i < requests; ++i) {
      const auto slot = static_cast<size_t>(i) % depth;
      MPI_Wait(&first[slot], MPI_STATUS_IGNORE);
      MPI_Wait(&second[slot], MPI_STATUS_IGNORE);
      MPI_Isend(&answers[slot], 8, MPI_BYTE, other, 1, native, &second[slot]);
      if (i + static_cast<int64_t>(depth) < requests) MPI_Irecv(payloads[slot].data(), 1024, MPI_BYTE, other, 0, native, &first[slot]);
    }
  }
  MPI_Waitall(depth, first.data(), MPI_STATUSES_IGNORE);
  MPI_Waitall(depth, second.data(), MPI_STATUSES_IGNORE);
}

void measure_requests(const Contest& contest) {
  constexpr int64_t requests = 1000;
  constexpr size_t depth = 16;
  const tw::Communicator& comm = contest.comm();
  ShardedTensor centre(comm, torch::zeros({256}), {.servers = {1}, .share_memory = false});
  std::array<at::Tensor, depth> payloads;
  for (at::Tensor& each : payloads) each = torch::ones({256});
  Case of{.benchmark = "parameter_server/requests", .name = "1KiB_16_deep", .baseline = "isend_irecv"};
  of.rounds = 101;
  of.units = requests;
  of.step = [&] {
    if (!contest.is_ours()) return exchange(comm, requests);
    if (comm.rank() != 0) return;  // rank 1 serves in the barrier after the round
    std::array<ShardedTensor::Handle, depth> handles;
    for (int64_t i = 0; i < requests; ++i) {
      const auto slot = static_cast<size_t>(i) % depth;
      handles[slot].wait();
      handles[slot] = centre.push(payloads[slot]);
    }
    for (ShardedTensor::Handle& each : handles) each.wait();
  };
  tw::benchmark::compare(contest, of);
}

/// Eight pushes or pulls in flight, against the same number of equal messages in flight. Rank 1 serves; the same two ranks run both in turn.
void measure_across(const Contest& contest, const std::string& what, int64_t bytes, std::string_view rate) {
  constexpr size_t depth = 8;
  constexpr int rounds = 10;
  const tw::Communicator& comm = contest.comm();
  const bool client = comm.rank() == 0;
  ShardedTensor centre(comm, torch::zeros({bytes / 4}), {.servers = {1}});
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < depth; ++i) tensors.push_back(torch::ones({bytes / 4}));
  const auto messages = [&] {
    std::array<MPI_Request, depth> requests{};
    for (size_t i = 0; i < depth; ++i) {
      void* const memory = tensors[i].data_ptr();
      const int count = static_cast<int>(bytes);
      if (client == (what == "push")) {
        MPI_Isend(memory, count, MPI_BYTE, 1 - comm.rank(), 0, tw::native_handle(comm), &requests[i]);
      } else {
        MPI_Irecv(memory, count, MPI_BYTE, 1 - comm.rank(), 0, tw::native_handle(comm), &requests[i]);
      }
    }
    MPI_Waitall(depth, requests.data(), MPI_STATUSES_IGNORE);
  };
  const auto requests = [&] {
    if (!client) return;  // the other rank serves in the barrier
    std::vector<ShardedTensor::Handle> handles;
    for (const at::Tensor& each : tensors) handles.push_back(what == "push" ? centre.push(each) : centre.pull(each));
    for (ShardedTensor::Handle& each : handles) each.wait();
  };
  const auto ms = [&](const std::function<void()>& exchange) {
    comm.barrier();
    const tw::Stopwatch watch;
    exchange();
    comm.barrier();
    return 1e3 * watch.elapsed().count() / depth;
  };
  std::vector<double> theirs;
  std::vector<double> ours;
  for (int round = -2; round < rounds; ++round) {
    const double baseline = ms(messages);
    const double served = ms(requests);
    if (round < 0) continue;
    theirs.push_back(baseline);
    ours.push_back(served);
  }
  centre.finish();
  const std::string name = tw::concat(what, '_', size_name(bytes), '_', rate);
  tw::benchmark::print(contest, {.benchmark = "parameter_server/two_hosts", .name = name, .baseline = "isend_irecv", .rounds = rounds}, theirs, ours);
}

/// Time for a fixed number of training steps of all ranks together, whichever ranks make them.
void measure_slow_rank(const Contest& contest, const std::string& algorithm) {
  constexpr int64_t steps = 60;
  const tw::Communicator& comm = contest.comm();
  torch::manual_seed(1);
  tw::benchmark::Trainee lenet = tw::benchmark::make_lenet(16);

  // The length of a step while two of our ranks compute: the same for both contestants.
  tw::Seconds length{0};
  for (int i = 0; i < 12 && contest.is_ours(); ++i) {
    comm.barrier();
    const tw::Stopwatch watch;
    if (comm.rank() > 0) lenet.backward();
    if (i > 1 && comm.rank() == 1) length += watch.elapsed() / 10;
  }
  tw::benchmark::sleeping_barrier(contest.world());
  double seconds = length.count();
  tw::mpi::allreduce(contest.world(), {&seconds, 1, tw::ElementType::float64}, tw::ReduceOp::sum);

  const auto parameters = lenet.module().parameters();
  std::optional<tw::DataParallel> reduced;
  std::unique_ptr<Worker> worker;
  if (!contest.is_ours()) {
    reduced.emplace(comm, lenet.module(), tw::ReducerOptions{.reduction = tw::Reduction::mean});
  } else if (algorithm == "downpour") {
    worker = std::make_unique<Downpour>(comm, parameters, DownpourOptions{.push_interval = 5, .pull_interval = 5});
  } else {
    worker = std::make_unique<ElasticAveraging>(comm, parameters, ElasticOptions{.period = 5});
  }
  const at::Tensor counter = tw::node_tensor(comm, {1}, at::kLong);
  auto* const begun = counter.data_ptr<int64_t>();

  const auto train = [&] {
    lenet.step();
    if (worker) worker->step();
    if (comm.rank() == 0) std::this_thread::sleep_for(tw::Seconds(4 * seconds));
  };

  Case of{.benchmark = "parameter_server/slow_rank", .name = algorithm, .baseline = "all_reduce"};
  of.rounds = 7;
  of.steps = 1;
  of.units = steps;
  of.step = [&] {
    if (reduced) {
      for (int64_t i = 0; i < steps / comm.size(); ++i) train();
      return;
    }
    if (comm.rank() == 0) std::atomic_ref(*begun).store(0);
    comm.barrier();
    while (std::atomic_ref(*begun).fetch_add(1) < steps) train();
  };
  tw::benchmark::compare(contest, of);
}

void measure_all(const Contest& contest, std::string_view what, std::string_view rate) {
  if (what == "slow_rank") {
    for (const char* algorithm : {"downpour", "easgd"}) measure_slow_rank(contest, algorithm);
    return;
  }
  if (what == "two_hosts") {
    for (const char* direction : {"pull", "push"}) {
      for (int64_t bytes = 65536; bytes <= int64_t{16} << 20; bytes *= 16) measure_across(contest, direction, bytes, rate);
    }
    return;
  }
  if (what == "requests") return measure_requests(contest);
  for (const char* direction : {"pull", "push"}) {
    if (!what.empty() && what != direction) continue;
    for (int64_t bytes = 4096; bytes <= int64_t{64} << 20; bytes *= 4) measure_bandwidth(contest, direction, bytes);
  }
  for (const char* direction : {"pull", "push_copy"}) {
    if (!what.empty() && what != "memcpy") continue;
    for (int64_t bytes = 65536; bytes <= int64_t{64} << 20; bytes *= 4) measure_copies(contest, direction, bytes);
  }
  if (what.empty()) measure_requests(contest);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  return tw::benchmark::run(
      argc, argv, [&](const Contest& contest) { measure_all(contest, what, argc > 2 ? argv[2] : "link"); }, what == "two_hosts" ? 1 : 2);
}
