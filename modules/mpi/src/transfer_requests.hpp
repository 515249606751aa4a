// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <tw/mpi/collectives.hpp>
#include <vector>

#include "runtime.hpp"

namespace tw::mpi {

inline std::byte* bytes(void* data) { return static_cast<std::byte*>(data); }

inline Buffer raw(std::span<const std::byte> memory) {
  return {const_cast<std::byte*>(memory.data()), static_cast<int64_t>(memory.size()), ElementType::uint8};
}

/// The bytes of `buffer`.
inline Buffer raw(const Buffer& buffer) { return {buffer.data, buffer.count * element_bytes(buffer.type), ElementType::uint8}; }

/// Requests of one operation, started together. Long buffers are cut here, and only here: MPI 3.1 counts with an int.
class TransferRequests : public Transfer {
 public:
  /// @throws NotInitialisedError, ContractError or RevokedError if nothing can start on `comm`
  explicit TransferRequests(const Communicator& comm);

  /// `begin(piece, count, request)` starts one of the pieces that `buffer` is cut into. An empty buffer starts nothing.
  template <class Begin>
  void add(const char* call, const Buffer& buffer, Begin begin, int peer = -1) {
    const int64_t largest = comm_.runtime->largest_message();
    for (int64_t at = 0; at < buffer.count; at += largest) {
      const auto count = static_cast<int>(std::min(largest, buffer.count - at));
      add({.call = call, .peer = peer, .bytes = count},
          [&](MPI_Request* request) { return begin(bytes(buffer.data) + at * element_bytes(buffer.type), count, request); });
    }
  }

  /// For calls whose buffers are not cut.
  template <class Begin>
  void add(const char* call, Begin begin) {
    add({.call = call}, begin);
  }

  /// @param buffer bytes. A message must be as long as the receiver's buffer: otherwise the receiver raises an error, and some MPIs write past the
  /// end of a short buffer (Open MPI 4.1 from 4 KiB on).
  void send(const Buffer& buffer, int to, int tag);
  void receive(const Buffer& buffer, int from, int tag);

  /// @throws ContractError if a message is shorter than its buffer, MpiError if MPI fails
  bool advance() override;

  const CommunicatorState& comm() const noexcept { return comm_; }

  /// Numbers that must live until completion: offsets, sizes.
  std::vector<int> kept;

 private:
  struct Begun {
    const char* call;
    int peer = -1;  // for a message
    int bytes = 0;  // for a message
    bool is_received = false;
  };

  template <class Begin>
  void add(const Begun& begun, Begin begin) {
    requests_.push_back(MPI_REQUEST_NULL);
    begun_.push_back(begun);
    check(begin(&requests_.back()), begun.call, comm_.name);
    if (begun.peer < 0) ++comm_.traffic.collectives;
  }

  void expect_whole(size_t request);
  void fail(int code) const;

  CommunicatorState& comm_;  // kept alive by the operation
  std::vector<MPI_Request> requests_;
  std::vector<Begun> begun_;  // by request
  std::vector<MPI_Status> statuses_;
};

}  // namespace tw::mpi
