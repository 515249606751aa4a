// SPDX-License-Identifier: Apache-2.0
#include "bucket_transport.hpp"

#include <tw/comm/collectives.hpp>
#include <utility>

namespace tw {
namespace {

int64_t bytes_of(const at::Tensor& values) { return static_cast<int64_t>(values.nbytes()); }

/// All ranks receive the sum.
class ToAll final : public BucketTransport {
  BucketSum begin(const Communicator& comm, size_t /*index*/, const Bucket& /*bucket*/, const at::Tensor& values,
                  const at::Tensor& /*share*/) override {
    return {iallreduce(comm, values, ReduceOp::sum), bytes_of(values)};
  }
};

/// Each rank receives a slice of the sum.
class Scattered final : public BucketTransport {
  BucketSum begin(const Communicator& comm, size_t /*index*/, const Bucket& /*bucket*/, const at::Tensor& values, const at::Tensor& share) override {
    return {ireduce_scatter(comm, values, share, ReduceOp::sum), bytes_of(values)};
  }
};

/// The bucket's owner receives the sum.
class ToOwner final : public BucketTransport {
  BucketSum begin(const Communicator& comm, size_t /*index*/, const Bucket& bucket, const at::Tensor& values, const at::Tensor& /*share*/) override {
    return {ireduce(comm, values, ReduceOp::sum, Rank(bucket.owner)), bytes_of(values)};
  }
};

/// All ranks receive the sum, with an error. The residual of a step is added to the next step's values, so weights must not change between steps.
class Compressed final : public BucketTransport {
 public:
  explicit Compressed(std::shared_ptr<Compressor> compressor) : compressor_(std::move(compressor)) {}

 private:
  BucketSum begin(const Communicator& comm, size_t index, const Bucket& /*bucket*/, const at::Tensor& values, const at::Tensor& /*share*/) override {
    return compressor_->begin(comm, index, values);
  }
  bool is_linear() const noexcept override { return false; }

  std::shared_ptr<Compressor> compressor_;
};

}  // namespace

std::unique_ptr<BucketTransport> transport_of(const ReducerOptions& options) {
  if (options.compressor) return std::make_unique<Compressed>(options.compressor);
  switch (options.sharding) {
    case Sharding::none: break;
    case Sharding::slices: return std::make_unique<Scattered>();
    case Sharding::tensors: return std::make_unique<ToOwner>();
  }
  return std::make_unique<ToAll>();
}

}  // namespace tw
