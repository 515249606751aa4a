// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <tw/base.hpp>

namespace {

std::filesystem::path write_file(const std::string& name, const std::string& text) {
  const auto path = std::filesystem::path(testing::TempDir()) / name;
  std::ofstream(path) << text;
  return path;
}

TEST(Config, BindsEveryTypeAndRemembersOrigins) {
  auto config = tw::Config::from_file(write_file("good.toml", "epochs = 3\nname = 'run'\n[optimizer]\nlr = 1\nnesterov = true\n"));
  config.set("optimizer.lr=0.25");
  int64_t epochs = 1;
  std::string name;
  double lr = 0.1;
  double momentum = 0.9;
  bool nesterov = false;
  config.bind("epochs", epochs);
  config.bind("name", name);
  config.bind("optimizer.lr", lr);
  config.bind("optimizer.momentum", momentum);
  config.bind("optimizer.nesterov", nesterov);
  config.finish();
  EXPECT_EQ(epochs, 3);
  EXPECT_EQ(name, "run");
  EXPECT_EQ(lr, 0.25);
  EXPECT_EQ(momentum, 0.9);
  EXPECT_TRUE(nesterov);
  ASSERT_EQ(config.entries().size(), 5U);
  EXPECT_EQ(config.entries()[0].origin, "good.toml:1");
  EXPECT_EQ(config.entries()[2].origin, "--set");
  EXPECT_EQ(config.entries()[3].origin, "default");
}

TEST(Config, AnIntegerServesWhereANumberIsWanted) {
  tw::Config config;
  config.set("lr=1");
  double lr = 0;
  config.bind("lr", lr);
  config.finish();
  EXPECT_EQ(lr, 1.0);
}

TEST(Config, BareWordsAreStrings) {
  tw::Config config;
  config.set("data.directory=/data/fashion");
  config.set("optimizer.name=adam");
  std::filesystem::path directory;
  std::string name = "sgd";
  config.bind("data.directory", directory);
  config.bind("optimizer.name", name, {"sgd", "adam"});
  config.finish();
  EXPECT_EQ(directory, "/data/fashion");
  EXPECT_EQ(name, "adam");
}

TEST(Config, TakesTextAsItStands) {
  tw::Config config;
  for (const char* text : {"it's", "5", "true", "a=b", "\"quoted\"", ""}) {
    config.set_text("directory", text, "--data");
    std::filesystem::path directory;
    config.bind("directory", directory);
    config.finish();
    EXPECT_EQ(directory, text);
    EXPECT_EQ(config.entries().back().origin, "--data");
  }
}

TEST(Config, ReportsAllProblemsAtOnceWithTheNearestName) {
  auto config = tw::Config::from_file(write_file("bad.toml", "epoch = 3\n[optimizer]\nlr = 'fast'\nname = 'adm'\nbetas = [0.9, 0.99]\n"));
  int64_t epochs = 1;
  double lr = 0.1;
  std::string name = "sgd";
  config.bind("epochs", epochs);
  config.bind("optimizer.lr", lr);
  config.bind("optimizer.name", name, {"sgd", "adam"});
  try {
    config.finish();
    FAIL() << "no exception";
  } catch (const tw::ConfigError& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.problems().size(), 4U) << text;
    EXPECT_NE(text.find("bad.toml:1: unknown key epoch; did you mean epochs?"), std::string::npos) << text;
    EXPECT_NE(text.find("optimizer.lr must be a number, got \"fast\""), std::string::npos) << text;
    EXPECT_NE(text.find("the nearest is \"adam\""), std::string::npos) << text;
    EXPECT_NE(text.find("bad.toml:5: optimizer.betas"), std::string::npos) << text;
  }
}

TEST(Config, ASyntaxErrorNamesLineAndColumn) {
  try {
    tw::Config::from_file(write_file("broken.toml", "epochs = 3\nname = = 1\n"));
    FAIL() << "no exception";
  } catch (const tw::ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("broken.toml:2:"), std::string::npos) << error.what();
  }
}

TEST(Config, AMissingFileIsNamed) {
  EXPECT_THROW(tw::Config::from_file("no/such/file.toml"), tw::FileError);
  EXPECT_THROW(tw::Config().set("lr"), tw::ConfigError);
}

}  // namespace
