import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { peersDirectory } from "../bench/peers.ts";

const version = "v0.161.0";
const folder = join(peersDirectory, `otel-collector-${version}`);
const program = join(folder, "collector");

/** The collector of OpenTelemetry that the tests send to; undefined if it was not built. */
export function findOtelCollector(): string | undefined {
  return existsSync(program) ? program : undefined;
}

const source = `package main

import (
	"log"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](fileexporter.NewFactory())
	return otelcol.Factories{
		Receivers: receivers,
		Exporters: exporters,
		Telemetry: otelconftelemetry.NewFactory(),
	}, err
}

func main() {
	providers := []confmap.ProviderFactory{fileprovider.NewFactory()}
	settings := otelcol.CollectorSettings{
		BuildInfo: component.NewDefaultBuildInfo(),
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				ProviderFactories: providers,
				DefaultScheme:     "file",
			},
		},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		log.Fatal(err)
	}
}
`;

/** Builds a collector that receives OTLP and writes files, from OpenTelemetry's own modules. */
export function installOtelCollector(): void {
  if (existsSync(program)) return console.log(`the collector is there: ${program}`);
  const draft = `${folder}.draft`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true });
  writeFileSync(join(draft, "main.go"), source);
  const go = (...words: string[]) =>
    execFileSync("go", words, {
      ...{ cwd: draft, stdio: "inherit" },
      env: { ...process.env, GOFLAGS: "-mod=mod", CGO_ENABLED: "0" },
    });
  go("mod", "init", "collector");
  const contrib = "github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter";
  const core = ["otelcol", "receiver/otlpreceiver"];
  const modules = [contrib, ...core.map((name) => `go.opentelemetry.io/collector/${name}`)];
  go("get", ...modules.map((name) => `${name}@${version}`));
  go("mod", "tidy");
  go("build", "-ldflags=-s -w", "-o", "collector", ".");
  renameSync(draft, folder);
  console.log(`collector: ${program}`);
}
