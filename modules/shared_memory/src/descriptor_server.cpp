// SPDX-License-Identifier: Apache-2.0
#include <tw/shared_memory/segment.hpp>

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

[[noreturn]] void fail(const char* call) {
  throw Error(concat("shared memory cannot be passed to the other ranks of this node (", call, ": ", std::generic_category().message(errno), ')'));
}

sockaddr_un socket_address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading zero byte: the abstract namespace
  return address;
}

socklen_t address_length(const std::string& name) { return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()); }

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
  socket_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket_.get() < 0) fail("socket");
  const sockaddr_un address = socket_address(address_);
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), address_length(address_)) != 0) fail("bind");
  if (::listen(socket_.get(), SOMAXCONN) != 0) fail("listen");
}

int DescriptorServer::serve(const Descriptor& descriptor) {
  for (int served = 0;;) {
    const Descriptor connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.get() < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (connection.get() < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return served;
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

DescriptorReceiver::DescriptorReceiver(const std::string& address) : connection_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (connection_.get() < 0) fail("socket");
  const sockaddr_un server = socket_address(address);
  if (::connect(connection_.get(), reinterpret_cast<const sockaddr*>(&server), address_length(address)) != 0) fail("connect");
}

std::optional<Descriptor> DescriptorReceiver::receive() {
  Message message;
  const ssize_t received = ::recvmsg(connection_.get(), &message.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return std::nullopt;
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
