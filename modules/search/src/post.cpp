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

void put_news(Bytes& bytes, const News& news) {
  put(bytes, news.kind);
  switch (news.kind) {
    case News::Kind::immigrant: put(bytes, news.replaces); [[fallthrough]];
    case News::Kind::result: put(bytes, news.individual); break;
    case News::Kind::departure:
      put(bytes, news.individual.trial);
      put(bytes, news.individual.moves);
      break;
    case News::Kind::report:
      put(bytes, news.individual.trial);
      put(bytes, news.step);
      put(bytes, news.value);
      break;
    case News::Kind::answer: put(bytes, news.number); break;
    case News::Kind::ask_state:
      put(bytes, news.individual.trial);
      put(bytes, news.number);
      break;
    case News::Kind::state:
      put(bytes, news.individual.values);
      put(bytes, news.number);
      break;
    case News::Kind::status:
      put(bytes, news.number);
      put(bytes, news.step);
      put(bytes, news.value);
      break;
    case News::Kind::ask:
    case News::Kind::stop: break;
  }
}

News get_news(Reading& reading) {
  News news{.kind = reading.get<News::Kind>()};
  switch (news.kind) {
    case News::Kind::immigrant: news.replaces = reading.get<bool>(); [[fallthrough]];
    case News::Kind::result: news.individual = reading.get_individual(); break;
    case News::Kind::departure:
      news.individual.trial = reading.get<int64_t>();
      news.individual.moves = reading.get<int32_t>();
      break;
    case News::Kind::report:
      news.individual.trial = reading.get<int64_t>();
      news.step = reading.get<int64_t>();
      news.value = reading.get<double>();
      break;
    case News::Kind::answer: news.number = reading.get<int64_t>(); break;
    case News::Kind::ask_state:
      news.individual.trial = reading.get<int64_t>();
      news.number = reading.get<int64_t>();
      break;
    case News::Kind::state:
      news.individual.values = reading.get_values();
      news.number = reading.get<int64_t>();
      break;
    case News::Kind::status:
      news.number = reading.get<int64_t>();
      news.step = reading.get<int64_t>();
      news.value = reading.get<double>();
      break;
    case News::Kind::ask:
    case News::Kind::stop: break;
  }
  return news;
}

}  // namespace

Post::Post(const Communicator& workers, std::function<void()> before_letters)
    : mailbox_(workers), before_letters_(std::move(before_letters)), outboxes_(static_cast<size_t>(workers.size())) {}

void Post::dispatch(size_t to) {
  before_letters_();
  mailbox_.send(std::exchange(outboxes_[to], {}), Rank(static_cast<int>(to)));
}

void Post::send(const News& news, int to) {
  Bytes& outbox = outboxes_[static_cast<size_t>(to)];
  put_news(outbox, news);
  if (outbox.size() >= full) dispatch(static_cast<size_t>(to));
}

void Post::send_all(const News& news, int begin, int end) {
  for (int to = begin; to < end; ++to) {
    if (to != mailbox_.comm().rank()) send(news, to);
  }
}

void Post::send_gathered(bool at_once) {
  if (!at_once && since_sent_.elapsed() < a_moment) return;
  for (size_t to = 0; to < outboxes_.size(); ++to) {
    if (!outboxes_[to].empty()) dispatch(to);
  }
  since_sent_ = Stopwatch();
}

void Post::deliver(const mpi::Mailbox::Letter& letter, const std::function<void(const News&, int from)>& take) {
  Reading reading(letter.bytes.data(), letter.bytes.size());
  while (!reading.at_end()) {
    const News news = get_news(reading);
    TW_ASSERT(reading.is_good());
    take(news, letter.from);
  }
}

void Post::deliver(const std::function<void(const News&, int from)>& take, std::chrono::nanoseconds wait) {
  auto letter = wait.count() > 0 ? mailbox_.take_within(wait) : mailbox_.take();
  for (; letter; letter = mailbox_.take()) deliver(*letter, take);
}

void Post::settle(const std::function<void(const News&, int from)>& take) {
  send_gathered(true);
  const Communicator& comm = mailbox_.comm();
  const auto workers = static_cast<size_t>(comm.size());
  const auto sent = std::make_shared<const std::vector<int64_t>>(mailbox_.sent());  // to each; what is sent from now on belongs to the next call
  const auto expected = std::make_shared<std::vector<int64_t>>(workers);            // from each
  Work exchange = mpi::start(comm, {.collective = Collective::alltoall, .count = static_cast<int64_t>(workers)},
                             mpi::alltoall_transfer(comm, reinterpret_cast<const std::byte*>(sent->data()),
                                                    reinterpret_cast<std::byte*>(expected->data()), static_cast<int64_t>(sizeof(int64_t))),
                             [sent, expected] {});  // kept where `take` throws
  while (!exchange.test()) {
    deliver(take, a_look);
    send_gathered(true);
  }
  const auto is_complete = [&] {
    for (size_t from = 0; from < workers; ++from) {
      if (mailbox_.taken()[from] < (*expected)[from]) return false;
    }
    return true;
  };
  while (!is_complete()) {
    deliver(take, a_look);
    send_gathered(true);
  }
  mailbox_.flush();
}

}  // namespace tw::search
