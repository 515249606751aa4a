// SPDX-License-Identifier: Apache-2.0
#include <tw/base/concat.hpp>
#include <tw/base/random.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/gradients/compression.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>

#include <tuple>

#include "residuals.hpp"

namespace tw {
namespace {

class PowerSgdCompression : public Compressor {
 public:
  explicit PowerSgdCompression(const PowerSgdOptions& options) : options_(options) { options_.validate(); }

  std::string describe() const override { return concat("PowerSGD of rank ", options_.rank, ", seed ", options_.seed); }

  void prepare(const BucketPlan& plan, const std::vector<TensorSpec>& gradients, c10::Device device) override {
    residuals_.prepare("PowerSGD", plan, gradients, device);
    for (const Bucket& bucket : plan.buckets) buckets_.push_back(make_bucket(plan, bucket, gradients, device));
  }

  // As in the paper, but with sums instead of means: `values` is already weighted.
  BucketSum begin(const Communicator& comm, size_t index, const at::Tensor& values) override {
    const Part& part = buckets_[index];
    const at::Tensor& residual = residuals_.bucket(index);
    residual.add_(values);
    for (const Matrix& matrix : part.matrices) {
      at::Tensor p = matrix.p;
      at::matmul_out(p, matrix.q, matrix_of(residual, matrix).t());
    }
    for (const Run& run : part.rest) run.travels.copy_(residual.narrow(0, run.offset, run.travels.numel()));
    return {iallreduce(comm, part.first.storage(), ReduceOp::sum),
            static_cast<int64_t>(part.first.storage().nbytes() + part.second.storage().nbytes()),
            [this, &comm, index, values] { finish(comm, buckets_[index], residuals_.bucket(index), values); }};
  }

  void take_back(int64_t id, const at::Tensor& sum, int ranks) override { residuals_.take_back(id, sum, ranks); }
  void rescale(double factor) override { residuals_.rescale(factor); }
  std::vector<NamedShard> shards() const override {
    std::vector<NamedShard> shards = residuals_.shards();
    for (const Part& part : buckets_) {
      for (const Matrix& matrix : part.matrices) shards.push_back(whole("compression/" + matrix.name + "/q", matrix.q, ShardKind::optimizer));
    }
    return shards;
  }

 private:
  /// A gradient of shape [rows, columns], approximated by p' q. Stored as a few long rows: products read these five times as fast as long columns.
  struct Matrix {
    std::string name;
    int64_t offset = 0;  // in the bucket
    int64_t rows = 0;
    int64_t columns = 0;
    at::Tensor p;  // [rank, rows]
    at::Tensor q;  // [rank, columns]
  };
  /// A gradient sent uncompressed.
  struct Run {
    int64_t offset = 0;
    at::Tensor travels;
  };
  struct Part {
    FlatBuffer first;   // all p, and uncompressed gradients
    FlatBuffer second;  // all q
    at::Tensor guess;   // initial value of all q
    std::vector<Matrix> matrices;
    std::vector<Run> rest;
  };

  void finish(const Communicator& comm, const Part& part, const at::Tensor& residual, const at::Tensor& values) const {
    for (const Matrix& matrix : part.matrices) {
      matrix.p.copy_(std::get<0>(at::linalg_qr(matrix.p.t())).t());
      at::Tensor q = matrix.q;
      at::matmul_out(q, matrix.p, matrix_of(residual, matrix));
    }
    allreduce(comm, part.second.storage(), ReduceOp::sum);
    for (const Matrix& matrix : part.matrices) {
      at::Tensor approximation = matrix_of(values, matrix);
      at::matmul_out(approximation, matrix.p.t(), matrix.q);
      matrix_of(residual, matrix).sub_(approximation, 1.0 / comm.size());
    }
    for (const Run& run : part.rest) {
      values.narrow(0, run.offset, run.travels.numel()).copy_(run.travels);
      residual.narrow(0, run.offset, run.travels.numel()).zero_();
    }
    residual.nan_to_num_(0, 0, 0);  // a non-finite gradient must not persist, neither here nor in q
    part.second.storage().copy_(at::where(at::isfinite(part.second.storage()).all(), part.second.storage(), part.guess));
  }

  static at::Tensor matrix_of(const at::Tensor& bucket, const Matrix& matrix) {
    return bucket.narrow(0, matrix.offset, matrix.rows * matrix.columns).view({matrix.rows, matrix.columns});
  }

  Part make_bucket(const BucketPlan& plan, const Bucket& bucket, const std::vector<TensorSpec>& gradients, c10::Device device) const {
    Part part;
    std::vector<int64_t> first;   // sizes of the entries of part.first, matrices before runs
    std::vector<int64_t> second;  // sizes of the entries of part.second
    std::vector<int64_t> runs;
    for (const int64_t id : bucket.gradients) {
      const TensorSpec& spec = gradients[static_cast<size_t>(id)];
      const int64_t offset = plan.placements[static_cast<size_t>(id)].offset;
      const int64_t rows = spec.shape.empty() ? 0 : spec.shape[0];
      const int64_t columns = rows > 0 ? spec.numel() / rows : 0;
      if (spec.shape.size() >= 2 && options_.rank * (rows + columns) < rows * columns) {
        part.matrices.push_back({spec.name, offset, rows, columns, {}, {}});
        first.push_back(rows * options_.rank);
        second.push_back(columns * options_.rank);
      } else {
        part.rest.push_back({offset, {}});
        runs.push_back(spec.numel());
      }
    }
    first.insert(first.end(), runs.begin(), runs.end());
    const FlatLayout first_layout = flat_layout(first);
    const FlatLayout second_layout = flat_layout(second);
    const at::TensorOptions options = at::device(device).dtype(bucket.dtype);
    part.first = FlatBuffer(first_layout.numel, options);
    part.second = FlatBuffer(second_layout.numel, options);
    for (size_t i = 0; i < part.matrices.size(); ++i) {
      Matrix& matrix = part.matrices[i];
      matrix.p = part.first.view(first_layout.offsets[i], {options_.rank, matrix.rows});
      matrix.q = part.second.view(second_layout.offsets[i], {options_.rank, matrix.columns});
    }
    for (size_t i = 0; i < part.rest.size(); ++i) {
      part.rest[i].travels = part.first.view(first_layout.offsets[part.matrices.size() + i], {runs[i]});
    }
    part.guess = guess(second_layout.numel).to(options);
    part.second.storage().copy_(part.guess);
    return part;
  }

  // Any subspace works if it is the same on all ranks.
  at::Tensor guess(int64_t numel) const {
    CounterRng random(options_.seed);
    at::Tensor numbers = at::empty({numel}, at::TensorOptions().dtype(at::kDouble));
    for (int64_t i = 0; i < numel; ++i) numbers.mutable_data_ptr<double>()[i] = static_cast<double>(random()) / 2147483648.0 - 1.0;
    return numbers;
  }

  PowerSgdOptions options_;
  Residuals residuals_;
  std::vector<Part> buckets_;
};

}  // namespace

void visit(PowerSgdOptions& options, OptionVisitor& visitor) {
  visitor.field("rank", options.rank, at_least(1), {.meaning = "rank of the approximation of each gradient"});
  visitor.field("seed", options.seed, Bounds{}, {.meaning = "seed of the initial guess"});
}
void PowerSgdOptions::validate() const { expect_none(out_of_bounds(*this)); }

std::shared_ptr<Compressor> power_sgd_compression(const PowerSgdOptions& options) { return std::make_shared<PowerSgdCompression>(options); }

}  // namespace tw
