// SPDX-License-Identifier: Apache-2.0
#include "post.hpp"

#include <memory>
#include <tw/base/contract.hpp>
#include <tw/mpi/collectives.hpp>
#include <utility>

namespace tw::search {
namespace {

constexpr Seconds a_moment{100e-6};
constexpr size_t full = 1 << 16;  // bytes

}  // namespace

Post::Post(const Communicator& workers, std::function<void()> before_messages, Listener listener)
    : mailbox_(workers),
      before_messages_(std::move(before_messages)),
      listener_(std::move(listener)),
      outboxes_(static_cast<size_t>(workers.size())) {}

void Post::dispatch(size_t to) {
  before_messages_();
  mailbox_.send(std::exchange(outboxes_[to], {}), Rank(static_cast<int>(to)));
}

void Post::send(const Message& message, int to) {
  Bytes& outbox = outboxes_[static_cast<size_t>(to)];
  put(outbox, message);
  if (outbox.size() >= full) dispatch(static_cast<size_t>(to));
}

void Post::send_all(const Message& message, int begin, int end) {
  for (int to = begin; to < end; ++to) {
    if (to != mailbox_.comm().rank()) send(message, to);
  }
}

void Post::send_gathered(bool at_once) {
  if (!at_once && since_sent_.elapsed() < a_moment) return;
  for (size_t to = 0; to < outboxes_.size(); ++to) {
    if (!outboxes_[to].empty()) dispatch(to);
  }
  since_sent_ = Stopwatch();
}

void Post::open(const mpi::Mailbox::Message& parcel) {
  ByteReader reading(parcel.bytes.data(), parcel.bytes.size());
  while (!reading.at_end()) {
    const Message message = get_message(reading);
    TW_ASSERT(reading.is_good());
    listener_(message, parcel.from);
  }
}

void Post::deliver(std::chrono::nanoseconds wait) {
  auto message = wait.count() > 0 ? mailbox_.take_within(wait) : mailbox_.take();
  for (; message; message = mailbox_.take()) open(*message);
}

void Post::settle() {
  send_gathered(true);
  const Communicator& comm = mailbox_.comm();
  const auto workers = static_cast<size_t>(comm.size());
  const auto sent =
      std::make_shared<const std::vector<int64_t>>(mailbox_.sent());      // number of messages to each worker; later ones belong to the next call
  const auto expected = std::make_shared<std::vector<int64_t>>(workers);  // number of messages from each worker
  Work exchange = mpi::start(comm, {.collective = Collective::alltoall, .count = static_cast<int64_t>(workers)},
                             mpi::alltoall_transfer(comm, reinterpret_cast<const std::byte*>(sent->data()),
                                                    reinterpret_cast<std::byte*>(expected->data()), static_cast<int64_t>(sizeof(int64_t))),
                             [sent, expected] {});  // kept alive if the listener throws
  while (!exchange.test()) {
    deliver(poll_interval);
    send_gathered(true);
  }
  const auto is_complete = [&] {
    for (size_t from = 0; from < workers; ++from) {
      if (mailbox_.received()[from] < (*expected)[from]) return false;
    }
    return true;
  };
  while (!is_complete()) {
    deliver(poll_interval);
    send_gathered(true);
  }
  while (!mailbox_.all_sent()) deliver(poll_interval);  // a worker that evaluates a trial may receive only after hours
}

}  // namespace tw::search
