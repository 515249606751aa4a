// SPDX-License-Identifier: Apache-2.0
#include "node_memory.hpp"

#include <chrono>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/objects.hpp>
#include <tw/shared_memory/segment.hpp>

namespace tw {
namespace {

constexpr auto hand_over_timeout = std::chrono::seconds(30);

/// Runs `step` and gives what it threw.
template <class Step>
std::string message_of_failure(Step step) {
  try {
    step();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// A collective: everyone hears what failed anywhere.
void expect_success_everywhere(const Communicator& comm, const std::string& failure) {
  std::string all;
  const auto failures = allgather_strings(comm, failure);
  for (size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank].empty()) all += concat(all.empty() ? "" : "; ", "rank ", rank, ": ", failures[rank]);
  }
  if (!all.empty()) throw Error(all);
}

}  // namespace

// a. The lowest rank of each node makes the memory and listens on a socket.
// b. All learn the addresses of all sockets, or what went wrong.
// c. Each node's lowest rank hands the descriptor to its neighbours, and everybody maps it.
// d. All learn whether that went well everywhere.
std::shared_ptr<std::byte> make_node_memory(const Communicator& comm, const std::vector<int>& neighbours, int64_t bytes) {
  const bool leads = neighbours.front() == comm.rank();
  shared_memory::Descriptor memory;
  std::optional<shared_memory::DescriptorServer> server;
  std::string failure;
  if (leads) {
    failure = message_of_failure([&] {
      memory = shared_memory::make_memory(bytes);
      server.emplace();
    });
  }
  const auto addresses = allgather_strings(comm, server ? server->address() : "");
  expect_success_everywhere(comm, failure);

  auto mapping = std::make_shared<shared_memory::Mapping>();
  failure = message_of_failure([&] {
    if (leads) {
      server->serve(memory, static_cast<int>(neighbours.size()) - 1, hand_over_timeout);
    } else {
      memory = shared_memory::receive_descriptor(addresses[static_cast<size_t>(neighbours.front())], hand_over_timeout);
    }
    *mapping = shared_memory::Mapping(memory, bytes);
  });
  expect_success_everywhere(comm, failure);
  return {mapping, mapping->bytes().data()};
}

}  // namespace tw
