// SPDX-License-Identifier: Apache-2.0
#include "gpu_direct.hpp"

#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full_like.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/comm/device.hpp>
#include <tw/comm/objects.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/device_awareness.hpp>
#include <vector>

#include "watched.hpp"

namespace tw::tool {
namespace {

constexpr auto patience = std::chrono::seconds(20);

std::string kind_here() {
  const auto kind = at::accelerator::getAccelerator();
  return kind ? c10::DeviceTypeName(*kind, /*lower_case=*/true) : "";
}

std::string words(std::optional<bool> aware) { return aware ? (*aware ? "yes" : "no") : "unknown"; }

// Why the test cannot run on this rank; empty if it can.
std::string obstacle(const Environment& mpi) {
  if (mpi.world().size() < 2) return "the test needs two ranks: mpirun -n 2 torchweave doctor --gpu-direct";
  const std::string kind = kind_here();
  if (kind.empty()) return "no GPU build: this LibTorch was built for the CPU only";
  if (at::accelerator::deviceCount() == 0) return concat("no device: LibTorch was built for ", kind, ", but finds no such device here");
  if (mpi::device_awareness(mpi.world(), kind).running == false) return concat("MPI is not aware of ", kind, " devices, according to MPI itself");
  return "";
}

// The first failure that any rank has, with the number of the rank unless all ranks have the same. Collective.
std::string of_all(const Communicator& comm, const std::string& mine) {
  const std::vector<std::string> all = allgather_strings(comm, mine);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    const bool same = std::ranges::count(all, all[rank]) == comm.size();
    return same ? all[rank] : concat("rank ", rank, ": ", all[rank]);
  }
  return "";
}

/// One message, and where its two ends lie.
struct Message {
  int from;
  int to;
  bool device_sends;
  bool device_receives;
  int64_t count;

  std::string describe() const {
    return concat("a message of ", count * 4, " bytes from rank ", from, device_sends ? "'s device" : "'s memory", " to rank ", to,
                  device_receives ? "'s device" : "'s memory");
  }
};

// Begins with messages that use device memory only on rank 0, which can report its own failure. MPI sends small and large messages differently.
std::vector<Message> all_messages() {
  std::vector<Message> all;
  for (const int64_t count : {int64_t{16}, int64_t{1} << 20}) {
    for (const int rank : {0, 1}) {
      all.push_back({rank, 1 - rank, true, false, count});
      all.push_back({1 - rank, rank, false, true, count});
      all.push_back({rank, 1 - rank, true, true, count});
    }
  }
  return all;
}

mpi::Buffer buffer_of(const at::Tensor& tensor) { return {tensor.data_ptr(), tensor.numel(), ElementType::float32}; }

// Sends or receives `message`. Returns what went wrong; empty if nothing did.
std::string send_or_receive(const Communicator& comm, const Message& message, c10::Device device) {
  const bool sends = comm.rank() == message.from;
  const at::Tensor sent = at::arange(message.count, at::kFloat).add(message.from + 1);
  const c10::Device here = (sends ? message.device_sends : message.device_receives) ? device : c10::Device(c10::kCPU);
  const at::Tensor tensor = sends ? sent.to(here) : at::full_like(sent, -1).to(here);
  at::accelerator::synchronizeDevice(device.index());  // MPI reads memory without waiting for streams
  auto transfer = sends ? mpi::send_transfer(comm, buffer_of(tensor), Rank(message.to), Tag(0))
                        : mpi::receive_transfer(comm, buffer_of(tensor), Rank(message.from), Tag(0));
  const Call call{.collective = sends ? Collective::send : Collective::receive, .peer = sends ? message.to : message.from, .count = message.count};
  if (!mpi::start(comm, call, std::move(transfer), [tensor] {}).wait_for(patience)) {
    return concat("no end within ", patience.count(), " s of ", message.describe(), ": the other rank has crashed, or it hangs");
  }
  return sends || tensor.cpu().equal(sent) ? "" : concat("wrong data: ", message.describe(), " arrived with other values");
}

}  // namespace

std::string try_gpu_direct(const Environment& mpi, const std::function<void(std::string_view)>& about_to) {
  about_to(concat(mpi.world().rank(), " before any message"));
  const Communicator comm = mpi.world().dup();
  const std::string kind = kind_here();
  if (comm.rank() == 0 && !kind.empty()) {
    const mpi::DeviceAwareness awareness = mpi::device_awareness(comm, kind);
    std::cout << "MPI                 " << Environment::library_version() << "\naware of " << kind << ": at compile time "
              << words(awareness.compiled) << "; at run time " << words(awareness.running) << std::endl;
  }
  if (const std::string why = of_all(comm, obstacle(mpi)); !why.empty()) return why;
  const c10::Device device = device_of_rank(comm, kind);
  for (const Message& message : all_messages()) {
    about_to(concat(comm.rank(), " in ", message.describe()));
    const bool takes_part = comm.rank() == message.from || comm.rank() == message.to;
    std::string failure = takes_part ? send_or_receive(comm, message, device) : "";
    if (failure.starts_with("no end")) return failure;  // the other rank cannot be asked
    if (std::string any = of_all(comm, failure); !any.empty()) return any;
  }
  return "";
}

std::string gpu_direct_verdict(const std::string& failure) {
  return failure.empty() ? "PASSED: GPU aware MPI is available" : concat("FAILED: GPU aware MPI is NOT available: ", failure);
}

int run_gpu_direct(const std::function<void(const std::function<void(const Environment&)>&)>& begin) {
  return watched(
      [&](const std::function<void(std::string_view)>& about_to) {
        std::string failure;
        begin([&](const Environment& mpi) {
          failure = try_gpu_direct(mpi, about_to);
          if (mpi.world().rank() == 0) std::cout << gpu_direct_verdict(failure) << std::endl;
          if (failure.find("no end within") != std::string::npos) Environment::abort("");  // what is in flight never ends
        });
        return failure.empty() ? 0 : 1;
      },
      [](const std::string& doing, const std::string& end) {
        const size_t space = doing.find(' ');
        const std::string rank = doing.substr(0, space);
        const std::string where = end.empty() ? "another rank" : concat("rank ", rank);
        const std::string what = concat("crash of ", where, end.empty() ? "" : concat(" by ", end), ", ", doing.substr(space + 1));
        (rank == "0" ? std::cout << gpu_direct_verdict(what) : std::cerr << what) << std::endl;
      });
}

}  // namespace tw::tool
