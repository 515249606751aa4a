// SPDX-License-Identifier: Apache-2.0
#include <tw/shared_memory/segment.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

namespace tw::shared_memory {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* call) {
  throw Error(concat("shared memory cannot be handed to the other ranks of this node (", call, ": ", std::generic_category().message(errno), ')'));
}

sockaddr_un socket_address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a first byte of zero: the abstract namespace
  return address;
}

socklen_t address_length(const std::string& name) { return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()); }

// Waits until `socket` can be read. The time-out of a whole exchange, not of one call.
void wait_readable(const Descriptor& socket, Clock::time_point deadline) {
  pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int ready = ::poll(&entry, 1, static_cast<int>(left > 0 ? left : 0));
    if (ready > 0) return;
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) errno = ETIMEDOUT;
    fail("poll");
  }
}

// One byte travels with the descriptor: a message must not be empty.
struct Message {
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};

  Message() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
};

bool of_same_user(const Descriptor& connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

}  // namespace

DescriptorServer::DescriptorServer() {
  std::random_device random;
  address_ = concat("torchweave-", ::getpid(), '-', random(), random());
  socket_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket_.get() < 0) fail("socket");
  const sockaddr_un address = socket_address(address_);
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), address_length(address_)) != 0) fail("bind");
  if (::listen(socket_.get(), SOMAXCONN) != 0) fail("listen");
}

void DescriptorServer::serve(const Descriptor& descriptor, int receivers, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (int served = 0; served < receivers;) {
    wait_readable(socket_, deadline);
    const Descriptor connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.get() < 0) fail("accept");
    if (!of_same_user(connection)) continue;
    Message message;
    cmsghdr* control = CMSG_FIRSTHDR(&message.header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    const int value = descriptor.get();
    std::memcpy(CMSG_DATA(control), &value, sizeof value);
    if (::sendmsg(connection.get(), &message.header, MSG_NOSIGNAL) != 1) fail("sendmsg");
    ++served;
  }
}

Descriptor receive_descriptor(const std::string& name, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const Descriptor connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connection.get() < 0) fail("socket");
  const sockaddr_un address = socket_address(name);
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), address_length(name)) != 0) fail("connect");
  wait_readable(connection, deadline);
  Message message;
  const ssize_t received = ::recvmsg(connection.get(), &message.header, MSG_CMSG_CLOEXEC);
  if (received == 0) errno = ECONNRESET;
  if (received != 1) fail("recvmsg");
  const cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  if (control == nullptr || control->cmsg_type != SCM_RIGHTS) {
    errno = EPROTO;
    fail("recvmsg");
  }
  int value = -1;
  std::memcpy(&value, CMSG_DATA(control), sizeof value);
  return Descriptor(value);
}

}  // namespace tw::shared_memory
