// SPDX-License-Identifier: Apache-2.0
#include "backends.hpp"

namespace tw {
namespace {

class ExchangeTransfer : public mpi::Transfer {
 public:
  ExchangeTransfer(std::shared_ptr<shared_memory::Channel> channel, const BoundCall& bound, int64_t flat_bytes)
      : exchange_(std::move(channel), bound.call, bound.input, bound.output, flat_bytes, bound.part) {}
  bool advance() override { return exchange_.advance(); }

 private:
  shared_memory::Exchange exchange_;
};

class SharedMemoryBackend : public Backend {
 public:
  SharedMemoryBackend(std::shared_ptr<shared_memory::Channel> channel, int64_t flat_bytes) : channel_(std::move(channel)), flat_bytes_(flat_bytes) {}

  std::string_view name() const noexcept override { return "shared_memory"; }

  std::string why_not(const Call& call) const override {
    if (!channel_) return "the ranks are on several nodes";
    switch (call.collective) {
      case Collective::barrier:
      case Collective::broadcast:
      case Collective::allreduce:
      case Collective::reduce:
      case Collective::allgather:
      case Collective::reduce_scatter: return "";
      default: return "this collective uses MPI, also inside a node";
    }
  }

  std::unique_ptr<mpi::Transfer> begin(const Communicator&, const BoundCall& call) override {
    return std::make_unique<ExchangeTransfer>(channel_, call, flat_bytes_);
  }

 private:
  std::shared_ptr<shared_memory::Channel> channel_;
  int64_t flat_bytes_;
};

}  // namespace

std::unique_ptr<Backend> make_shared_memory_backend(std::shared_ptr<shared_memory::Channel> channel, int64_t flat_bytes) {
  return std::make_unique<SharedMemoryBackend>(std::move(channel), flat_bytes);
}

}  // namespace tw
