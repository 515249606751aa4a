// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/objects.hpp>

#include <numeric>
#include <span>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/library.hpp>
#include <tw/mpi/start_queue.hpp>

namespace tw {
namespace {

template <class Value>
std::vector<Value> allgather_value(const Communicator& comm, Value mine) {
  std::vector<Value> all(static_cast<size_t>(comm.size()));
  mpi::allgather(comm, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

// Cuts `all` into pieces of these sizes.
std::vector<std::string> cut(const std::string& all, const std::vector<int64_t>& sizes) {
  std::vector<std::string> pieces;
  size_t begin = 0;
  for (const int64_t size : sizes) {
    pieces.push_back(all.substr(begin, static_cast<size_t>(size)));
    begin += static_cast<size_t>(size);
  }
  return pieces;
}

}  // namespace

std::vector<std::string> allgather_strings(const Communicator& comm, const std::string& mine) {
  const auto sizes = allgather_value(comm, static_cast<int64_t>(mine.size()));
  std::string all(static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0})), '\0');
  mpi::allgather(comm, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)), sizes);
  return cut(all, sizes);
}

std::vector<std::string> gather_strings(const Communicator& comm, const std::string& mine, Rank root) {
  mpi::expect_rank(comm, root);
  const auto sizes = allgather_value(comm, static_cast<int64_t>(mine.size()));
  const bool receives = comm.rank() == root;
  struct Kept {  // also kept if the call fails: MPI may still touch it
    std::string mine;
    std::vector<std::string> all;
  };
  const auto kept = std::make_shared<Kept>(Kept{mine, std::vector<std::string>(static_cast<size_t>(receives ? comm.size() : 0))});
  const auto with = [](int rank, std::string& text) {
    return mpi::PeerBuffer{Rank(rank), {text.data(), static_cast<int64_t>(text.size()), ElementType::uint8}};
  };
  const std::vector<mpi::PeerBuffer> sending{with(root, kept->mine)};
  std::vector<mpi::PeerBuffer> receiving;
  for (size_t rank = 0; rank < kept->all.size(); ++rank) {
    kept->all[rank].resize(static_cast<size_t>(sizes[rank]));
    receiving.push_back(with(static_cast<int>(rank), kept->all[rank]));
  }
  const auto begin = [sending, receiving](const Communicator& of) { return mpi::exchange_transfer(of, Collective::gather, sending, receiving); };
  mpi::start(comm, {.collective = Collective::gather, .peer = root}, mpi::message_queue(comm).start(comm, begin), [kept] {}).wait();
  return std::move(kept->all);
}

std::string broadcast_string(const Communicator& comm, const std::string& text, Rank root) {
  mpi::expect_rank(comm, root);
  auto size = static_cast<int64_t>(text.size());
  mpi::broadcast(comm, {&size, 1, ElementType::int64}, root);
  std::string result = comm.rank() == root ? text : std::string(static_cast<size_t>(size), '\0');
  mpi::broadcast(comm, {result.data(), size, ElementType::uint8}, root);
  return result;
}

}  // namespace tw
