# `cargo xtask dist` of teamwire made this formula.
class Teamwire < Formula
  desc "Coordinate teams of AI agents across machines"
  homepage "@HOMEPAGE@"
  version "@VERSION@"
  license "Apache-2.0"

  # @PLACES@

  def install
    bin.install "teamwire"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/teamwire.bash" => "teamwire"
    zsh_completion.install "completions/_teamwire"
    fish_completion.install "completions/teamwire.fish"
    doc.install "THIRD-PARTY.txt", "THIRD-PARTY-rust.html", "teamwire.toml", "examples"
  end

  service do
    run [opt_bin/"teamwire", "serve"]
    keep_alive crashed: true
  end

  test do
    assert_equal "teamwire #{version}", shell_output("#{bin}/teamwire --version").strip
    assert_match "listen", shell_output("#{bin}/teamwire serve --print-config")
  end
end
