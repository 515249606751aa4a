// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/objects.hpp>

#include <memory>
#include <numeric>
#include <span>
#include <tw/base/contract.hpp>
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

/// What an exchange sends and receives. It is kept if the call fails, because MPI may still use it.
struct Texts {
  std::vector<std::string> sent;
  std::vector<std::string> received;
};

std::vector<Rank> all_of(size_t ranks) {
  std::vector<Rank> all;
  for (size_t rank = 0; rank < ranks; ++rank) all.emplace_back(static_cast<int>(rank));
  return all;
}

/// @param to, from by text
void exchange(const Communicator& comm, Collective collective, Rank root, const std::shared_ptr<Texts>& texts, const std::vector<Rank>& to,
              const std::vector<Rank>& from) {
  const auto with = [](std::vector<std::string>& each, const std::vector<Rank>& peers) {
    std::vector<mpi::PeerBuffer> buffers;
    for (size_t i = 0; i < each.size(); ++i)
      buffers.push_back({peers[i], {each[i].data(), static_cast<int64_t>(each[i].size()), ElementType::uint8}});
    return buffers;
  };
  const auto begin = [collective, sending = with(texts->sent, to), receiving = with(texts->received, from)](const Communicator& of) {
    return mpi::exchange_transfer(of, collective, sending, receiving);
  };
  mpi::start(comm, {.collective = collective, .peer = root}, mpi::message_queue(comm).start(comm, begin), [texts] {}).wait();
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
  const auto texts = std::make_shared<Texts>(Texts{{mine}, std::vector<std::string>(static_cast<size_t>(receives ? comm.size() : 0))});
  for (size_t rank = 0; rank < texts->received.size(); ++rank) texts->received[rank].resize(static_cast<size_t>(sizes[rank]));
  exchange(comm, Collective::gather, root, texts, {root}, all_of(texts->received.size()));
  return std::move(texts->received);
}

std::string scatter_strings(const Communicator& comm, const std::vector<std::string>& texts, Rank root) {
  mpi::expect_rank(comm, root);
  const bool sends = comm.rank() == root;
  const auto count = static_cast<int64_t>(texts.size());
  std::vector<int64_t> sizes(static_cast<size_t>(comm.size()), -1 - count);  // so that all ranks throw if the root's list is wrong
  for (size_t rank = 0; sends && count == comm.size() && rank < sizes.size(); ++rank) sizes[rank] = static_cast<int64_t>(texts[rank].size());
  mpi::broadcast(comm, {sizes.data(), static_cast<int64_t>(sizes.size()), ElementType::int64}, root);
  TW_EXPECTS(sizes.front() >= 0, "rank ", root, " has ", -1 - sizes.front(), " strings for ", comm.size(), " ranks: it needs one for each");
  const auto moved = std::make_shared<Texts>(Texts{sends ? texts : std::vector<std::string>(), std::vector<std::string>(1)});
  moved->received.front().resize(static_cast<size_t>(sizes[static_cast<size_t>(int{comm.rank()})]));
  exchange(comm, Collective::scatter, root, moved, all_of(moved->sent.size()), {root});
  return std::move(moved->received.front());
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
