// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tw::shared_memory {

/// An owning file descriptor. Move-only.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) noexcept : value_(value) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const noexcept { return value_; }

 private:
  int value_ = -1;
};

/// Creates anonymous, zeroed memory that the processes of a node can map. It has no name, so nothing remains after the processes end. It does not
/// count against the size of /dev/shm. The process that first accesses a page allocates the page.
/// @throws Error naming the size if the system refuses.
Descriptor make_memory(int64_t bytes);

/// Memory of make_memory(), mapped into this process. The memory exists as long as a process maps it or holds a descriptor of it. Move-only.
class Mapping {
 public:
  Mapping() = default;
  /// @throws Error naming the size if the system refuses, for example because the address space is limited.
  Mapping(const Descriptor& memory, int64_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// Sends a descriptor to other processes of the node through a Unix socket in the abstract namespace, which leaves no file.
class DescriptorServer {
 public:
  /// @throws Error if the socket cannot be created.
  DescriptorServer();
  /// The address to pass to DescriptorReceiver; send it to the other processes by other means.
  const std::string& address() const noexcept { return address_; }
  /// Sends `descriptor` to each process of this user that has connected since the last call; does not wait. @return the number of these processes.
  /// @throws Error if it cannot be sent.
  int serve(const Descriptor& descriptor);

 private:
  std::string address_;
  Descriptor socket_;
};

/// Receives a descriptor from a DescriptorServer.
class DescriptorReceiver {
 public:
  /// @throws Error if no server listens at `address`.
  explicit DescriptorReceiver(const std::string& address);
  /// Returns the descriptor, or std::nullopt if the server has not sent it yet. @throws Error if the server has closed the connection.
  std::optional<Descriptor> receive();

 private:
  Descriptor connection_;
};

}  // namespace tw::shared_memory
