// SPDX-License-Identifier: Apache-2.0
#include "pixels.hpp"

#include <tw/base/contract.hpp>
#include <tw/data/idx.hpp>
#include <tw/data/image_dataset.hpp>

#include <ATen/ops/empty.h>

namespace tw {
namespace {

constexpr int64_t mnist_classes = 10;
constexpr int64_t label_header_bytes = 8;  // magic and one dimension

// The first label that is not below `classes`, or -1.
int64_t first_bad_label(const at::Tensor& labels, int64_t classes) {
  const uint8_t* values = labels.const_data_ptr<uint8_t>();
  for (int64_t row = 0; row < labels.size(0); ++row) {
    if (values[row] >= classes) return row;
  }
  return -1;
}

std::filesystem::path find_file(const std::filesystem::path& directory, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    const auto path = directory / (name + ending);
    if (std::filesystem::exists(path)) return path;
  }
  throw FileError(directory / name, 0, "does not exist, with or without the suffix .gz");
}

}  // namespace

ImageDataset::ImageDataset(at::Tensor images, at::Tensor labels, int64_t classes)
    : images_(std::move(images)), labels_(std::move(labels)), classes_(classes) {
  TW_EXPECTS(images_.dim() == 3 && images_.scalar_type() == at::kByte, "images must be uint8 [n, height, width]");
  TW_EXPECTS(labels_.dim() == 1 && labels_.scalar_type() == at::kByte, "labels must be uint8 [n]");
  TW_EXPECTS(images_.size(0) == labels_.size(0), "ImageDataset needs one label per image, got ", images_.size(0), " images and ", labels_.size(0),
             " labels");
  images_ = images_.contiguous();
  labels_ = labels_.contiguous();
  const int64_t bad = first_bad_label(labels_, classes_);
  TW_EXPECTS(bad < 0, "the label of row ", bad, " must be below ", classes_);
}

Batch ImageDataset::batch(std::span<const int64_t> indices) const {
  const auto n = static_cast<int64_t>(indices.size());
  const int64_t pixels = height() * width();
  Batch batch{at::empty({n, 1, height(), width()}, at::kFloat), at::empty({n}, at::kLong)};
  float* inputs = batch.inputs.mutable_data_ptr<float>();
  int64_t* targets = batch.targets.mutable_data_ptr<int64_t>();
  const uint8_t* images = images_.const_data_ptr<uint8_t>();
  const uint8_t* labels = labels_.const_data_ptr<uint8_t>();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = indices[static_cast<size_t>(i)];
    TW_EXPECTS(row >= 0 && row < size(), "there is no sample ", row, "; the number of samples is ", size());
    targets[i] = labels[row];
    pixels_to_floats(inputs + i * pixels, images + row * pixels, pixels);
  }
  return batch;
}

ImageDataset load_mnist(const std::filesystem::path& directory, Split split) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const auto image_path = find_file(directory, prefix + "-images-idx3-ubyte");
  const auto label_path = find_file(directory, prefix + "-labels-idx1-ubyte");
  at::Tensor images = read_idx(image_path);
  at::Tensor labels = read_idx(label_path);
  if (images.dim() != 3 || images.scalar_type() != at::kByte) throw FileError(image_path, 2, "the file must hold bytes in 3 dimensions");
  if (labels.dim() != 1 || labels.scalar_type() != at::kByte) throw FileError(label_path, 2, "the file must hold bytes in 1 dimension");
  if (images.size(0) != labels.size(0)) {
    throw FileError(label_path, 4,
                    concat("the file holds ", labels.size(0), " labels, but ", image_path.filename().string(), " holds ", images.size(0), " images"));
  }
  if (const int64_t bad = first_bad_label(labels, mnist_classes); bad >= 0) {
    throw FileError(label_path, label_header_bytes + bad, concat("the label of row ", bad, " must be below ", mnist_classes));
  }
  return {std::move(images), std::move(labels), mnist_classes};
}

}  // namespace tw
