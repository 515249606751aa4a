// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <tw/mpi/caller.hpp>
#include <utility>
#include <vector>

#include "runtime.hpp"

namespace tw::mpi {

/// The openings of conversations, in the order in which they arrive. Receives for them are always under way: so MPI puts them where they belong at
/// once, and nobody has to ask how long they are.
class Openings {
 public:
  using Memory = std::array<std::byte, Caller::most_opening_bytes>;
  struct Opening {
    int from = 0;
    size_t size = 0;
    std::unique_ptr<Memory> memory = {};
    std::span<const std::byte> bytes() const { return std::span(*memory).first(size); }
  };

  explicit Openings(const CommunicatorState& comm) : comm_(comm) {}
  ~Openings();  ///< those that have not been asked for are lost
  Openings(const Openings&) = delete;
  Openings& operator=(const Openings&) = delete;

  std::optional<Opening> next();
  /// Takes back the memory of one.
  void recycle(std::unique_ptr<Memory> memory) { spare_.push_back(std::move(memory)); }

 private:
  struct Receive {
    std::unique_ptr<Memory> memory;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void begin(Receive& receive);

  const CommunicatorState& comm_;
  std::array<Receive, Caller::most_under_way> under_way_;
  size_t oldest_ = 0;
  std::vector<std::unique_ptr<Memory>> spare_;
};

}  // namespace tw::mpi
