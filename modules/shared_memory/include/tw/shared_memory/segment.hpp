// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tw::shared_memory {

/// A file descriptor that closes itself. Move-only.
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

/// Anonymous memory that the processes of a node can map: it has no name, so nothing remains when they die, and it does not count against the size of
/// /dev/shm. Zeroed. Pages are allocated on first access, by the process that accesses them.
/// @throws Error naming the size when the system refuses.
Descriptor make_memory(int64_t bytes);

/// Memory of make_memory(), mapped into this process. It stays until every process that mapped it is gone or has unmapped it. Move-only.
class Mapping {
 public:
  Mapping() = default;
  /// @throws Error when the address space has too little free space.
  Mapping(const Descriptor& memory, int64_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// Sends a descriptor to other processes of the node, through a Unix socket in the abstract namespace, which leaves no file.
class DescriptorServer {
 public:
  /// @throws Error
  DescriptorServer();
  /// What the others need; sent to them by other means.
  const std::string& address() const noexcept { return address_; }
  /// Sends `descriptor` to the processes that have connected, and waits for none. @return how many. @throws Error
  int serve(const Descriptor& descriptor);

 private:
  std::string address_;
  Descriptor socket_;
};

/// The other side.
class DescriptorReceiver {
 public:
  /// @throws Error where no server listens at `address`.
  explicit DescriptorReceiver(const std::string& address);
  /// Nothing while the server has not served. @throws Error when it is gone.
  std::optional<Descriptor> receive();

 private:
  Descriptor connection_;
};

}  // namespace tw::shared_memory
